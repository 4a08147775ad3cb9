import { Agent, request } from 'node:http';
import type { Tally } from './events.js';

/** Each buyer has a connection of its own. */
const agent = new Agent({ keepAlive: false });

/** Sends the request of one buyer. Resolves to `unanswered` when the connection breaks, or on the abort of the signal. */
export function buy(url: string, signal: AbortSignal): Promise<keyof Tally> {
  return new Promise((resolve) => {
    const unanswered = () => resolve('unanswered');
    request(url, { method: 'POST', agent, signal }, (response) => {
      // A status is an answer only when the whole response has arrived.
      response.on('error', unanswered).on('end', () => resolve(answerOf(response.statusCode!)));
      response.resume();
    })
      .on('error', unanswered)
      .end();
  });
}

function answerOf(status: number): keyof Tally {
  if (status === 201) return 'sold';
  return status === 409 ? 'soldOut' : 'refused';
}
