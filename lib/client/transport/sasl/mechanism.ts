import { ErrorCode } from '../../../protocol/codes.js';
import { ConnectionError, NotAuthorizedError } from '../../errors.js';
import type { Reply } from '../transport.js';

/**
 * A SASL mechanism with the credentials of a client: begins the authentication of one connection.
 *
 * @param host of the server, as in the connect string
 * @throws BadOptionError if the mechanism cannot be used on this machine
 */
export type Mechanism = (host: string) => Exchange;

/** An authentication that failed. The message says why, and what the caller can do. */
export class SaslError extends Error {
  /** @param isTemporary whether another attempt may succeed without a change of the configuration */
  constructor(
    message: string,
    readonly isTemporary = false,
    options?: { readonly cause?: unknown },
  ) {
    super(message, options);
  }
}

const NOT_CONFIGURED =
  'it does not authenticate clients with SASL. Start it with a JAAS file that has a section Server (java.security.auth.login.config), or remove the option sasl';

/** The client's side of one authentication. */
export abstract class Exchange {
  abstract readonly mechanism: 'DIGEST-MD5' | 'GSSAPI';

  /**
   * Returns the token that answers a token of the server, or undefined when the authentication is complete. The first
   * call gets an empty token.
   *
   * @param token null if the server replied without a token
   * @throws SaslError
   */
  abstract answer(token: Buffer | null): Buffer | undefined | Promise<Buffer | undefined>;

  /** Returns what the server refused when it replied with an error code, and what the caller can do. */
  protected abstract refusal(): { refused: string; advice: string };

  /**
   * Authenticates the connection: sends the first token, and answers the tokens of the server until the exchange is
   * complete.
   *
   * @param server `host:port`, for messages
   * @param send sends a token, as the requests of a Transport
   * @throws NotAuthorizedError if the server refuses the credentials, or does not prove its own identity;
   *   ConnectionError if a later attempt may succeed
   */
  async run(
    server: string,
    send: (token: Buffer, reply: Reply<Buffer | null>) => boolean,
  ): Promise<void> {
    const prefix = `SASL authentication (${this.mechanism}) with ${server}: `;
    const broken = new ConnectionError(`the connection to ${server} broke`);
    const answerOf = (sent: Buffer, isFirst: boolean) =>
      new Promise<Buffer | null>((resolve, reject) => {
        const isSent = send(sent, (code, token) => {
          const why =
            code === ErrorCode.connectionLoss ? broken : this.#errorOf(code, token, isFirst);
          if (why === undefined) resolve(token);
          else reject(why);
        });
        if (!isSent) reject(broken);
      });
    try {
      let isFirst = true;
      for (let token = await this.answer(Buffer.alloc(0)); token; isFirst = false) {
        token = await this.answer(await answerOf(token, isFirst));
      }
    } catch (error) {
      if (!(error instanceof SaslError)) throw error;
      const { message, cause, isTemporary } = error;
      throw new (isTemporary ? ConnectionError : NotAuthorizedError)(prefix + message, { cause });
    }
  }

  /** Returns the error of a reply; undefined if the exchange continues. */
  #errorOf(code: number, token: Buffer | null, isFirst: boolean): SaslError | undefined {
    if (code === ErrorCode.unimplemented || (code === ErrorCode.ok && !token && isFirst)) {
      return new SaslError(NOT_CONFIGURED);
    }
    if (code === ErrorCode.ok) return undefined;
    const { refused, advice } = this.refusal();
    return new SaslError(`the server refused ${refused} (${code}). ${advice}`);
  }
}
