import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';

interface Address {
  readonly host: string;
  readonly port: number;
}

/** The network between one process and ZooKeeper: a TCP proxy that can be cut. */
export class NetworkLink {
  private readonly sockets = new Set<Socket>();
  /** The cuts that have not ended. */
  private readonly cuts = new Set<symbol>();
  private dialled = 0;

  private constructor(
    private readonly server: Server,
    private readonly addresses: readonly Address[],
    private readonly chroot: string,
  ) {
    server.on('connection', (client) => this.forward(client));
    // A connection that could not be accepted: the instance connects again.
    server.on('error', () => undefined);
  }

  /** @param connectString `host:port[,host:port…][/chroot]` */
  static async to(connectString: string): Promise<NetworkLink> {
    const [, hosts, chroot] = /^([^/]*)(.*)$/.exec(connectString)!;
    const addresses = hosts!.split(',').map((host) => {
      const { hostname, port } = new URL(`tcp://${host.trim()}`);
      return { host: hostname.replace(/^\[|\]$/g, ''), port: Number(port || 2181) };
    });
    const server = createServer({ pauseOnConnect: true, noDelay: true }).unref();
    await once(server.listen(0, '127.0.0.1'), 'listening');
    return new NetworkLink(server, addresses, chroot!);
  }

  /** For the process. */
  get connectString(): string {
    return `127.0.0.1:${(this.server.address() as AddressInfo).port}${this.chroot}`;
  }

  /**
   * Holds back all data in both directions. Connections stay open and new ones are accepted. Returns a function that ends
   * this cut. After the last cut, the data that was held back is delivered, as by a network that retransmits.
   */
  cut(): () => void {
    const cut = Symbol('cut');
    this.cuts.add(cut);
    for (const socket of this.sockets) socket.pause();
    return () => {
      this.cuts.delete(cut);
      if (!this.isCut) for (const socket of this.sockets) socket.resume();
    };
  }

  private get isCut(): boolean {
    return this.cuts.size > 0;
  }

  close(): void {
    this.server.close();
    for (const socket of this.sockets) socket.destroy();
  }

  /** Each connection goes to the next server of the ensemble. */
  private forward(client: Socket): void {
    const { host, port } = this.addresses[this.dialled++ % this.addresses.length]!;
    const server = connect({ host, port, noDelay: true });
    this.join(client, server);
    this.join(server, client);
  }

  private join(from: Socket, to: Socket): void {
    this.sockets.add(from);
    from.on('data', (chunk) => {
      if (!to.write(chunk)) from.pause();
    });
    to.on('drain', () => {
      if (!this.isCut) from.resume();
    });
    // The other side closes too; an error needs no other reaction.
    from.on('error', () => undefined);
    from.on('close', () => {
      this.sockets.delete(from);
      to.end();
    });
    if (this.isCut) from.pause();
    else from.resume();
  }
}
