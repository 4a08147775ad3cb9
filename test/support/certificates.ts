import { execFile } from 'node:child_process';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';

const run = promisify(execFile);
export const STORE_PASSWORD = 'changeit';

/** A private key and its certificate, as PEM files and as a Java key store. */
export interface Identity {
  readonly cert: string;
  readonly key: string;
  readonly keyStore: string;
}

/** A certificate authority for one test file, and the certificates that it signs. */
export class Authority implements AsyncDisposable {
  private constructor(
    private readonly directory: string,
    readonly cert: string,
    /** A Java trust store that contains the certificate of the authority. */
    readonly trustStore: string,
  ) {}

  static async make(): Promise<Authority> {
    const directory = await mkdtemp(join(tmpdir(), 'certificates-'));
    const inside = { cwd: directory };
    await openssl(['genpkey', ...EC, '-out', 'ca.key'], inside);
    await openssl(
      ['req', '-x509', '-key', 'ca.key', '-subj', '/CN=authority', '-days', '2', '-out', 'ca.pem'],
      inside,
    );
    await run(
      'keytool',
      ['-importcert', '-noprompt', '-file', 'ca.pem', ...store('trust')],
      inside,
    );
    const cert = await readFile(join(directory, 'ca.pem'), 'utf8');
    return new Authority(directory, cert, join(directory, 'trust.p12'));
  }

  /** @param names the subject alternative names, such as `DNS:zk1,IP:10.0.0.1` */
  async sign(name: string, names: string): Promise<Identity> {
    const inside = { cwd: this.directory };
    await writeFile(join(this.directory, 'names'), `subjectAltName=${names}`);
    await openssl(['genpkey', ...EC, '-out', `${name}.key`], inside);
    await openssl(
      ['req', '-new', '-key', `${name}.key`, '-subj', `/CN=${name}`, '-out', `${name}.csr`],
      inside,
    );
    const signed = ['-CA', 'ca.pem', '-CAkey', 'ca.key', '-CAcreateserial', '-extfile', 'names'];
    await openssl(
      ['x509', '-req', '-in', `${name}.csr`, ...signed, '-days', '2', '-out', `${name}.pem`],
      inside,
    );
    const both = ['-in', `${name}.pem`, '-inkey', `${name}.key`, '-out', `${name}.p12`];
    await openssl(['pkcs12', '-export', ...both, '-passout', `pass:${STORE_PASSWORD}`], inside);
    const file = (extension: string) => join(this.directory, `${name}.${extension}`);
    return {
      cert: await readFile(file('pem'), 'utf8'),
      key: await readFile(file('key'), 'utf8'),
      keyStore: file('p12'),
    };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await rm(this.directory, { recursive: true, force: true });
  }
}

const EC = ['-algorithm', 'EC', '-pkeyopt', 'ec_paramgen_curve:P-256'];

function openssl(args: string[], options: { cwd: string }) {
  return run('openssl', args, options);
}

function store(name: string): string[] {
  return ['-keystore', `${name}.p12`, '-storetype', 'PKCS12', '-storepass', STORE_PASSWORD];
}
