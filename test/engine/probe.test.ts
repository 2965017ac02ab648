import { expect, it } from "vitest";
import { startTestEngine } from "../support/test-engine.ts";
it("probe", async () => {
  await using test = await startTestEngine();
  const a = await test.delegate("review-auth-7f3k9q", [{ do: "progress", steps: 2 }, { do: "waitFor", name: "go" }, { do: "say", text: "ok" }]);
  console.log(a.text, a.structured);
  await test.settle();
  const p = test.call("task_wait", { taskIds: [a.taskId] });
  await test.clock.advanceAndSettle(25_000);
  console.log((await p).text);
  test.driver.release("go");
  await test.settle();
  console.log((await test.peek({ taskIds: [a.taskId] })).text);
  expect(1).toBe(1);
});
