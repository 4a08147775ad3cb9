export const USAGE = `Usage: nestjs-zookeeper <command> --zookeeper host:port[,host:port…][/chroot] [options]

Commands
  locks                 who holds and who waits for each lock and semaphore
  leaders               who leads and who takes part in each election
  watch                 both, shown again when they change, until Ctrl-C
  revoke <key | path>   asks whoever holds a lock to give it back; nothing forces it.
                        What begins with a slash is the lock's znode, anything else a key

Options
  --zookeeper <servers> the ensemble; default: the environment variable ZOOKEEPER
  --namespace <name>    as the application's option namespace; default: none
  --path <znode>        the lock at this znode or those below it, in place of those of the namespace
  --json                for programs: with locks and leaders an array, with watch one a line
  --every <ms>          watch: milliseconds between two looks, from 100; default 1000
  --participant <znode> revoke: this holder or waiter alone, as locks --json names it
  --auth <scheme:user:password>
                        credentials, such as digest:ops:secret. Other users of this machine can read a
                        command line: rather set the environment variable ZOOKEEPER_AUTH
  --tls                 encrypts the connection; trusts Node's authorities
  --ca, --cert, --key <file>
                        PEM files of the authority, and of this client where it has to show one
  --help                this text

Exit codes: 0 done, 1 failed, 2 not understood.
`;
