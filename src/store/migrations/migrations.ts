/**
 * The list of migrations, in order, as code: nothing is read from disk, so a packed daemon has them all.
 *
 * Invariant: append only. Names sort in the order of the numbers they begin with.
 * Absent on purpose: ways back. An older version refuses a newer database by name and leaves it untouched.
 */

import type { Kysely } from "kysely";
import { type Migration, Migrator } from "kysely/migration";
import { firstTables } from "./0001-first-tables.ts";
import { lineageTranscriptsNotices } from "./0002-lineage-transcripts-notices.ts";
import { milestones } from "./0003-milestones.ts";

const MIGRATIONS: Readonly<Record<string, Migration>> = {
  "0001_first_tables": { up: firstTables },
  "0002_lineage_transcripts_notices": { up: lineageTranscriptsNotices },
  "0003_milestones": { up: milestones },
};

/** Where executed migrations are recorded: one row a migration, its name in `name`. */
export const MIGRATION_TABLE = "schema_migrations";

export const MIGRATION_NAMES: readonly string[] = Object.keys(MIGRATIONS);

/** Runs what has not been run, all in one transaction. Rejects with the first error; then nothing has changed. */
export async function migrateToNewest<Tables>(db: Kysely<Tables>): Promise<readonly string[]> {
  const migrator = new Migrator({
    db,
    provider: { getMigrations: async () => ({ ...MIGRATIONS }) },
    migrationTableName: MIGRATION_TABLE,
    migrationLockTableName: "schema_migration_lock",
  });
  const { error, results } = await migrator.migrateToLatest();
  if (error instanceof Error) throw error;
  if (error !== undefined) throw new Error("migration failed", { cause: error });
  return (results ?? []).map((result) => result.migrationName);
}
