import { expect, it } from "vitest";
import { at, textAt } from "../support/json.ts";
import { startTestEngine, type TestAnswer } from "../support/test-engine.ts";

const say = (text: string): object => ({ do: "say", text });
const CWD = "/shop/clients/northwind/storefront/packages/checkout-service";
it("measure", async () => {
  const { countTokens } = await import("gpt-tokenizer/encoding/o200k_base");
  for (const sliceMaxMs of [25_000, 100_000]) {
    await using test = await startTestEngine();
    const steps: object[] = [];
    const beat = (n: number) => { for (let i = 0; i < n; i++) steps.push({ do: "sleep", ms: 5000 }, { do: "progress", steps: 1, toolRunning: i % 3 === 1 }); };
    beat(120);
    steps.push({ do: "fault", times: 6, fault: { httpStatus: 403, text: "<html>" } });
    beat(120);
    steps.push({ do: "sleep", ms: 420_000 });
    beat(420 - 84);
    steps.push(say("x".repeat(6000)));
    const t0 = performance.now();
    const first = await test.delegate("review-checkout-7f3k9q", steps, { cwd: CWD, title: "Review the retry handling of the checkout service" });
    let a: TestAnswer = first;
    let turns = 1;
    const show = (x: TestAnswer) => console.log(x.text, countTokens(x.text), "\n", JSON.stringify(x.structured), countTokens(JSON.stringify(x.structured)), countTokens(JSON.stringify(at(x.structured, "next", "arguments") ?? {})));
    show(first);
    let text = 0, json = 0, args = 0;
    for (;;) {
      text += countTokens(a.text); json += countTokens(JSON.stringify(a.structured));
      if (textAt(a.structured, "next", "kind") !== "wait") break;
      const arg = at(a.structured, "next", "arguments") as Record<string, unknown>;
      args += countTokens(JSON.stringify(arg));
      const p = test.call("task_wait", arg, { sliceMaxMs });
      let done = false;
      void p.then(() => { done = true; });
      while (!done) await test.clock.advanceAndSettle(1000);
      a = await p; turns++;
      if (turns === 3 || textAt(a.structured, "phase") !== "running") show(a);
    }
    console.log(sliceMaxMs, turns, text, json, args, performance.now() - t0);
  }
  expect(1).toBe(1);
}, 60000);
