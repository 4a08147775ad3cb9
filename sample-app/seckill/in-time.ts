/** Resolves as the promise does; rejects with the message if the promise has not settled after `limit` milliseconds. */
export async function inTime<T>(promise: Promise<T>, limit: number, message: string): Promise<T> {
  let timer: NodeJS.Timeout;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(message)), limit);
  });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}
