import { onTestFinished } from 'vitest';
import type { Mechanism } from '../../../../lib/client/transport/sasl/mechanism.js';
import type {
  ConnectRequest,
  DownReason,
  Transport,
} from '../../../../lib/client/transport/transport.js';
import { connectWire } from '../../../../lib/client/transport/wire-transport.js';
import { type Script, ScriptedServer } from '../../../support/scripted-server.js';

type Attaching = { server: ScriptedServer; attached: Promise<Transport>; ended: DownReason[] };

/** Attaches a session to a server that behaves as `script` says. The server ends with the test. */
export async function attach(
  script: Script,
  options: Partial<ConnectRequest> = {},
  sasl?: Mechanism,
): Promise<Attaching> {
  const server = await ScriptedServer.start(script);
  onTestFinished(() => server[Symbol.asyncDispose]());
  const ended: DownReason[] = [];
  const attached = connectWire(
    undefined,
    sasl,
  )({
    address: { ip: '127.0.0.1', port: server.port, host: '127.0.0.1', label: 'zk1:2181' },
    sessionTimeout: 4000,
    authInfo: [],
    signal: AbortSignal.timeout(60_000),
    listener: { onWatch: () => {}, onDown: (reason) => ended.push(reason) },
    ...options,
  });
  // The test awaits it later.
  attached.catch(() => {});
  return { server, attached, ended };
}
