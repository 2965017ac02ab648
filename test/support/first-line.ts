/** The first line of a stream, or why there is none. */

export function firstLineOf(
  stream: NodeJS.ReadableStream,
  gone: Promise<unknown>,
  complaints: () => string,
): Promise<string> {
  return new Promise((resolve, reject) => {
    let held = "";
    stream.on("data", (chunk: Buffer) => {
      held += chunk.toString();
      const end = held.indexOf("\n");
      if (end !== -1) resolve(held.slice(0, end));
    });
    gone.then(() => reject(new Error(`it ended before it was ready: ${complaints()}`))).catch(reject);
  });
}
