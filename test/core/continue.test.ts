/**
 * Further messages to a child, and the caller's word that a result has been read.
 */

import { describe, expect, it } from "vitest";
import { describe as viewOf } from "../../src/core/describe.ts";
import { LIMITS } from "../../src/core/limits.ts";
import {
  abandoned,
  aChoice,
  acked,
  asked,
  AUTH,
  bound,
  CALLER,
  cancelled,
  CHILD,
  continued,
  failed,
  finished,
  given,
  type Given,
  gone,
  HOUR,
  lost,
  PERSON,
  SECOND,
  START,
  survived,
} from "../support/given.ts";

const atWork = given().and(START).and(bound());
const completed = atWork.and(finished()).and(gone());
const failedOnce = atWork.and(failed(AUTH)).and(gone());

describe("a message to a task that has ended", () => {
  const ended = {
    completed,
    failed: failedOnce,
    cancelled: given().and(cancelled()),
    abandoned: atWork
      .and(finished())
      .later(30 * SECOND)
      .and(survived())
      .and(abandoned()),
  };

  it.each(Object.entries(ended))(
    "as %s reopens it: same ids, next run, status of the newest run (P2, F14, W1)",
    (_how, story) => {
      const reopened = story
        .when(continued("more"))
        .thenEvents("DeliveryAcked", "MessageQueued", "TaskReopened", "RunQueued");
      const view = viewOf(reopened.task, reopened.nowMs);
      expect(reopened.task.handle).toEqual(story.task.handle);
      expect(view).toMatchObject({
        status: "working",
        runOrdinal: 2,
        runId: `${story.task.handle.taskId}.r2`,
        outcome: null,
        earlierRun: story.task.lastSettlement,
        settlements: 1,
        queuedMessages: 0,
      });
      expect(reopened.task.run.message.name).toBe("more");
    },
  );

  it("settles with the next number when that run ends (F14)", () => {
    const again = completed.and(continued("more")).and(START).and(finished()).and(gone());
    expect(again.task.lastSettlement).toMatchObject({ number: 2, runOrdinal: 2 });
    expect(again.task.settlements).toBe(2);
  });

  it("is the caller's word that it has the result, a person's word is not (P9, L6)", () => {
    expect(completed.and(continued("more")).task.acknowledgedThrough).toBe(1);
    expect(completed.and(continued("more", { by: CHILD })).task.acknowledgedThrough).toBe(1);
    const byPerson = completed.when(continued("more", { by: PERSON }));
    expect(byPerson.thenEvents("MessageQueued", "TaskReopened", "RunQueued").task.acknowledgedThrough).toBe(0);
    completed.and(acked(1)).when(continued("more")).thenEvents("MessageQueued", "TaskReopened", "RunQueued");
  });

  it("may name another agent and model", () => {
    const { task } = failedOnce.and(
      continued("more", { choice: { ...aChoice(), agent: "codex", driver: "codex", model: "large" } }),
    );
    expect(task.spec).toMatchObject({ agent: "codex", driver: "codex", model: "large" });
    const same = failedOnce.and(continued("more"));
    expect(same.task.spec).toEqual(failedOnce.task.spec);
  });

  it("that could not be stopped waits until it is (P5, P10)", () => {
    const reopened = ended.abandoned.and(continued("more"));
    reopened.when(START).thenIgnored("not_startable");
    reopened.and(gone()).when(START).thenEvents("AttemptStarted");
  });
});

describe("a message to a task that has not ended", () => {
  const open = {
    queued: given(),
    running: atWork,
    "awaiting an answer": atWork.and(asked()),
    healing: atWork.and(failed()),
    recovering: atWork.and(lost()),
    stopping: atWork.and(finished()),
  };

  it.each(Object.entries(open))("is queued while it is %s and changes nothing else", (_state, story) => {
    const after = story.when(continued("more")).thenEvents("MessageQueued");
    expect(viewOf(after.task, 0)).toEqual({
      ...viewOf(story.task, 0),
      version: story.task.version + 1,
      queuedMessages: 1,
    });
  });

  it("is sent when the run has completed, as a run of its own, each in its turn", () => {
    const two = atWork.and(continued("second")).and(continued("third")).and(finished());
    const next = two.when(gone()).thenEvents("AttemptStopped", "TaskSettled", "TaskReopened", "RunQueued");
    expect(next.task).toMatchObject({ run: { ordinal: 2, message: { name: "second" } }, settlements: 1 });
    const last = next.and(START).and(finished()).and(gone());
    expect(last.task).toMatchObject({ run: { ordinal: 3, message: { name: "third" } }, settlements: 2, messages: [] });
    last.and(START).and(finished()).when(gone()).thenEvents("AttemptStopped", "TaskSettled");
  });

  it("is sent by him who sent it", () => {
    const { task } = atWork
      .and(continued("second", { by: PERSON }))
      .and(finished())
      .and(gone());
    expect(task.run.by).toEqual(PERSON);
  });

  it("waits when the run has failed, and goes first when somebody continues the task", () => {
    const waiting = atWork.and(continued("second")).and(failed(AUTH)).and(gone());
    expect(waiting.task.state.kind).toBe("settled");
    expect(viewOf(waiting.task, 0).queuedMessages).toBe(1);
    const going = waiting.and(continued("third"));
    expect(going.task.run.message.name).toBe("second");
    const then = going.and(START).and(finished()).and(gone());
    expect(then.task).toMatchObject({ run: { ordinal: 3, message: { name: "third" } }, messages: [] });
  });

  it("is refused past the limit, with a wait that claims nothing was told (P1, P15)", () => {
    const full = withMessages(atWork, LIMITS.queuedMessagesMax);
    const refused = full.when(continued("one too many")).thenRefused("capacity_full", "wait");
    expect(refused.detail).toEqual({ limit: LIMITS.queuedMessagesMax });
    expect(refused.next).toEqual({ kind: "wait", seen: [{ taskId: full.task.handle.taskId, news: 0, steps: 0 }] });
  });

  it("never fills a task up so that it cannot go on after a failure (P1, F13)", () => {
    const stuck = withMessages(atWork, LIMITS.queuedMessagesMax).and(failed(AUTH)).and(gone());
    const going = stuck.and(continued("go on"));
    expect(going.task.run.message.name).toBe("message-0");
    expect(going.task.messages).toHaveLength(LIMITS.queuedMessagesMax);
    expect(going.task.messages.at(-1)?.message.name).toBe("go on");
  });
});

describe("afterSettlement", () => {
  const goneOn = completed.and(continued("by a person", { by: PERSON }));

  it("sends where the task is where the caller believes it (D1)", () => {
    completed
      .when(continued("mine", { afterSettlement: 1 }))
      .thenEvents("DeliveryAcked", "MessageQueued", "TaskReopened", "RunQueued");
    atWork.when(continued("mine", { afterSettlement: 0 })).thenEvents("MessageQueued");
  });

  it("sends nothing where somebody has gone on meanwhile, be it running, ended or ended again (D1, F14)", () => {
    const again = goneOn.and(START).and(finished()).and(gone());
    for (const story of [
      goneOn,
      goneOn.and(START),
      goneOn.and(START).and(finished()),
      again,
      again.and(continued("x")),
    ]) {
      story.when(continued("mine", { afterSettlement: 1 })).thenNothing();
    }
    atWork
      .and(finished())
      .and(gone())
      .when(continued("mine", { afterSettlement: 0 }))
      .thenNothing();
  });

  it("says nothing about the limit on messages where nothing would be sent anyway", () => {
    const full = withMessages(goneOn, LIMITS.queuedMessagesMax);
    full.when(continued("mine", { afterSettlement: 1 })).thenNothing();
  });
});

describe("an acknowledgement", () => {
  it("clears the delivery of that settlement and of those before it (P9, L6)", () => {
    const { task } = completed.when(acked(1)).thenEvents("DeliveryAcked");
    expect(task.acknowledgedThrough).toBe(1);
    const second = completed
      .and(continued("x", { by: PERSON }))
      .and(START)
      .and(finished())
      .and(gone());
    expect(second.task.acknowledgedThrough).toBe(0);
    expect(second.and(acked(2)).task.acknowledgedThrough).toBe(2);
  });

  it("said again is success again (P9)", () => {
    completed.and(acked(1)).when(acked(1)).thenNothing();
  });

  it("of what has not happened yet acknowledges nothing (P9)", () => {
    completed.when(acked(2)).thenNothing();
    atWork.when(acked(1)).thenNothing();
    completed.when(acked(0)).thenNothing();
    completed.when(acked(-1)).thenNothing();
  });

  it("never uses a result up: it is told as before (P9, F2)", () => {
    const after = completed.and(acked(1));
    expect(viewOf(after.task, 0).outcome).toEqual(viewOf(completed.task, 0).outcome);
  });

  it("of an older settlement leaves a newer one unread", () => {
    const second = completed
      .and(continued("x", { by: PERSON }))
      .and(START)
      .and(finished())
      .and(gone());
    const { task } = second.and(acked(1, CALLER));
    expect(task).toMatchObject({ acknowledgedThrough: 1, settlements: 2 });
    expect(viewOf(task, HOUR).acknowledged).toBe(false);
  });
});

function withMessages(story: Given, number: number): Given {
  return Array.from({ length: number }, (_, index) => `message-${index}`).reduce(
    (soFar, name) => soFar.and(continued(name)),
    story,
  );
}
