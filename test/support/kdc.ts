import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { promisify } from 'node:util';
import { freePort } from './real-zookeeper.js';

const run = promisify(execFile);

const KDC = '/usr/sbin/krb5kdc';
const KDB5_UTIL = '/usr/sbin/kdb5_util';
const KADMIN = '/usr/sbin/kadmin.local';
export const REALM = 'EXAMPLE.COM';

/** MIT's Kerberos from Debian: a KDC on loopback with its own configuration, database and directory. */
export class Kdc implements AsyncDisposable {
  #process: ChildProcess | undefined;

  private constructor(private readonly directory: string) {}

  static async start(): Promise<Kdc> {
    const directory = await mkdtemp(join(tmpdir(), 'kdc-'));
    const kdc = new Kdc(directory);
    const port = await freePort();
    await writeFile(
      kdc.config,
      `[libdefaults]
  default_realm = ${REALM}
  dns_lookup_kdc = false
  dns_lookup_realm = false
  dns_canonicalize_hostname = false
  rdns = false
  # A small number makes the libraries use TCP.
  udp_preference_limit = 1
[realms]
  ${REALM} = {
    kdc = 127.0.0.1:${port}
  }
[domain_realm]
  localhost = ${REALM}
`,
    );
    await writeFile(
      join(directory, 'kdc.conf'),
      `[kdcdefaults]
  kdc_listen = 127.0.0.1:${port}
  kdc_tcp_listen = 127.0.0.1:${port}
[realms]
  ${REALM} = {
    database_name = ${directory}/principal
    key_stash_file = ${directory}/stash
    acl_file = ${directory}/kadm5.acl
  }
`,
    );
    await run(KDB5_UTIL, ['create', '-s', '-r', REALM, '-P', 'master'], { env: kdc.env });
    await kdc.launch();
    return kdc;
  }

  /** The configuration of clients, for the variable KRB5_CONFIG. */
  get config(): string {
    return join(this.directory, 'krb5.conf');
  }

  /** The environment of Kerberos' programs. */
  get env(): NodeJS.ProcessEnv {
    return {
      ...process.env,
      KRB5_CONFIG: this.config,
      KRB5_KDC_PROFILE: join(this.directory, 'kdc.conf'),
    };
  }

  async launch(): Promise<void> {
    const child = spawn(KDC, ['-n'], { env: this.env, stdio: ['ignore', 'ignore', 'pipe'] });
    this.#process = child;
    for await (const line of createInterface(child.stderr!)) {
      if (line.includes('starting')) return child.stderr!.resume() && undefined;
    }
    throw new Error('krb5kdc did not start');
  }

  async stop(): Promise<void> {
    const child = this.#process;
    if (!child || child.exitCode !== null || child.signalCode) return;
    const closed = once(child, 'close');
    child.kill('SIGKILL');
    await closed;
  }

  /** Adds a principal with a random key, and returns its key table. */
  async keyTable(principal: string): Promise<string> {
    const file = join(this.directory, `${principal.replace('/', '-')}.keytab`);
    await this.#administer(`addprinc -randkey ${principal}`);
    await this.#administer(`ktadd -k ${file} ${principal}`);
    return file;
  }

  /** Replaces the key of a principal by another one, which its key table does not have. */
  changeKey(principal: string): Promise<void> {
    return this.#administer(`change_password -randkey ${principal}`);
  }

  /**
   * Gets a ticket, and returns its cache for the variable KRB5CCNAME.
   *
   * @param lifetime seconds
   */
  async ticket(principal: string, keyTable: string, lifetime = 3600): Promise<string> {
    const cache = `FILE:${this.missingCache()}`;
    const options = ['-l', `${lifetime}s`, '-k', '-t', keyTable, '-c', cache];
    await run('kinit', [...options, principal], { env: this.env });
    return cache;
  }

  /** Returns a cache that does not exist. */
  missingCache(): string {
    return join(this.directory, `cache-${Math.random().toString(36).slice(2)}`);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
    await rm(this.directory, { recursive: true, force: true });
  }

  async #administer(query: string): Promise<void> {
    await run(KADMIN, ['-r', REALM, '-q', query], { env: this.env });
  }
}

/** Returns the line of a JAAS file for a server with a key table. */
export function kerberosLogin(principal: string, keyTable: string): string {
  return `com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true storeKey=true useTicketCache=false isInitiator=false keyTab="${keyTable}" principal="${principal}@${REALM}";`;
}
