/**
 * The tools of this server, in the order in which they are listed.
 */

import type { Tool } from "../tool.ts";
import { createDelegateTask } from "./delegate-task.ts";
import { createListAgents } from "./list-agents.ts";
import { createTaskAck } from "./task-ack.ts";
import { createTaskAnswer } from "./task-answer.ts";
import { createTaskCancel } from "./task-cancel.ts";
import { createTaskContinue } from "./task-continue.ts";
import { createTaskList } from "./task-list.ts";
import { createTaskStatus } from "./task-status.ts";
import { createTaskWait } from "./task-wait.ts";
import { createThreadRead } from "./thread-read.ts";
import type { ToolWorld } from "./tool-world.ts";

export function createTools(world: ToolWorld): readonly Tool[] {
  return [
    createDelegateTask(world),
    createTaskWait(world),
    createTaskStatus(world),
    createTaskList(world),
    createTaskContinue(world),
    createTaskAnswer(world),
    createTaskCancel(world),
    createTaskAck(world),
    createThreadRead(world),
    createListAgents(world),
  ];
}
