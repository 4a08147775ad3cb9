import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { RealZooKeeper } from './real-zookeeper.js';

interface SaslServerOptions {
  /** More lines of zoo.cfg. */
  config?: Record<string, string | number | boolean>;
  /** More options of the JVM. */
  jvm?: string[];
}

/** A real server whose clients authenticate with SASL. */
export class SaslServer implements AsyncDisposable {
  private constructor(
    readonly zookeeper: RealZooKeeper,
    private readonly directory: string,
    private readonly jaas: string,
  ) {}

  /** @param loginModule the line of the section Server in the JAAS file */
  static async start(loginModule: string, options: SaslServerOptions = {}): Promise<SaslServer> {
    const directory = await mkdtemp(join(tmpdir(), 'sasl-'));
    const jaas = join(directory, 'jaas.conf');
    await writeJaas(jaas, loginModule);
    const zookeeper = await RealZooKeeper.start({
      // A session must survive restarts of the JVM, also on a busy machine.
      maxSessionTimeout: 600_000,
      config: {
        'authProvider.sasl': 'org.apache.zookeeper.server.auth.SASLAuthenticationProvider',
        ...options.config,
      },
      jvm: [`-Djava.security.auth.login.config=${jaas}`, ...(options.jvm ?? [])],
    });
    return new SaslServer(zookeeper, directory, jaas);
  }

  get connectString(): string {
    return `localhost:${this.zookeeper.port}`;
  }

  /** Restarts the server with another line of the section Server. */
  async restartWith(loginModule: string): Promise<void> {
    await writeJaas(this.jaas, loginModule);
    await this.zookeeper.restart();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.zookeeper.dispose();
    await rm(this.directory, { recursive: true, force: true });
  }
}

/** Returns the line of a JAAS file for users with passwords. */
export function digestLogin(users: Readonly<Record<string, string>>): string {
  const lines = Object.entries(users).map(([user, password]) => `user_${user}="${password}"`);
  return `org.apache.zookeeper.server.auth.DigestLoginModule required ${lines.join(' ')};`;
}

function writeJaas(file: string, loginModule: string): Promise<void> {
  return writeFile(file, `Server {\n  ${loginModule}\n};\n`);
}
