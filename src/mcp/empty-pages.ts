/** Why a page of a thread has nothing to show, in words. */

import type { EmptyPage } from "../ports/engine.ts";

export const EMPTY_PAGES: Readonly<Record<EmptyPage, string>> = {
  no_result: "it has left no result",
  nothing_yet: "there is nothing to read yet",
  past_retention: "the text is past its retention",
  not_a_repository:
    "its directory was in no git repository when it started, or in one without a commit, so there is no diff",
  no_changes: "nothing differs from when it started",
  not_found: "nothing matches",
  not_found_yet: "nothing to show so far; the next call looks further",
  past_end: "nothing follows",
  unreadable: "the directory cannot be compared with how it was",
};
