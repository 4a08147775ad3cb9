import autocannon from 'autocannon';

interface Load {
  /** The same path on every instance. */
  urls: string[];
  /** Each sends one request on its own connection; all start at the same time. */
  buyers: number;
  /** Milliseconds until a buyer without an answer gives up. */
  patience: number;
  signal?: AbortSignal;
  onProgress?: (answers: Answers) => void;
}

export interface Answers {
  sold: number;
  soldOut: number;
  /** Other answers. */
  refused: number;
}

export interface LoadFigures {
  requests: number;
  /** Buyers without an order or a "sold out": no answer, or an error. */
  errors: number;
  /** Answers per second. */
  throughput: number;
  /** Milliseconds until the answer, across all instances. */
  p50: number;
  p99: number;
}

const SOLD = 201;
const SOLD_OUT = 409;

export async function sendBuyers(load: Load): Promise<LoadFigures> {
  const { urls, buyers, patience, signal, onProgress } = load;
  const answers: Answers = { sold: 0, soldOut: 0, refused: 0 };
  const start = performance.now();
  let lastAnswer = start;

  const { latency } = await runAutocannon(
    {
      // autocannon accepts an array of URLs and distributes the connections; its types do not say so.
      url: urls as unknown as string,
      method: 'POST',
      connections: buyers,
      amount: buyers,
      timeout: Math.ceil(patience / 1000),
      sampleInt: 100,
    },
    (status) => {
      lastAnswer = performance.now();
      answers[status === SOLD ? 'sold' : status === SOLD_OUT ? 'soldOut' : 'refused'] += 1;
      onProgress?.(answers);
    },
    signal,
  );

  const count = answers.sold + answers.soldOut + answers.refused;
  return {
    requests: buyers,
    // autocannon does not count connections that a stopping instance closed gracefully.
    errors: buyers - answers.sold - answers.soldOut,
    throughput: count && Math.round(count / ((lastAnswer - start) / 1000)),
    p50: latency.p50,
    p99: latency.p99,
  };
}

async function runAutocannon(
  options: autocannon.Options,
  onAnswer: (status: number) => void,
  signal?: AbortSignal,
): Promise<autocannon.Result> {
  signal?.throwIfAborted();
  const result = await new Promise<autocannon.Result>((resolve, reject) => {
    const run = autocannon(options, (error, result) => (error ? reject(error) : resolve(result)));
    run.on('response', (_client, status) => onAnswer(status));
    signal?.addEventListener('abort', () => run.stop(), { once: true });
  });
  signal?.throwIfAborted();
  return result;
}
