export const USAGE = `Usage: nestjs-zookeeper <command> --zookeeper host:port[,host:port…][/chroot] [options]

Commands
  locks                 list the holders and waiters of each lock and semaphore
  leaders               list the leader and the participants of each election
  watch                 list both again when they change, until Ctrl-C
  revoke <key | path>   ask the holders of a lock to release it; does not force them.
                        An argument that starts with a slash is a znode, any other a key

Options
  --zookeeper <servers> the ensemble; default: the environment variable ZOOKEEPER
  --namespace <name>    as the application's option namespace; default: none
  --path <znode>        the lock at this znode, or the locks below it, instead of the namespace's
  --json                JSON output: an array; with watch one object per line
  --every <ms>          watch: milliseconds between two reads, at least 100; default 1000
  --participant <znode> revoke: only this holder or waiter; its path as in locks --json
  --auth <scheme:user:password>
                        credentials, such as digest:ops:secret. Other users of this machine can read
                        the command line; the environment variable ZOOKEEPER_AUTH is safer
  --tls                 encrypt the connection; trusts Node's certificate authorities
  --ca, --cert, --key <file>
                        PEM files: the authority; certificate and key of this client
  --help                show this text

Exit codes: 0 success, 1 failure, 2 invalid command line.
`;
