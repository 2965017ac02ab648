import type { Driver } from "../../ports/driver.ts";
export function createPiDriver(): Driver {
  return { name: "pi", onLoss: "resume", run: async () => undefined };
}
