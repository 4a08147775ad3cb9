/** Packages that Nest loads when it first needs them. */
const LAZY = ['@nestjs/platform-express', '@nestjs/microservices', '@nestjs/websockets'];

/** Loads what Nest loads on first use: a simulation must not wait for files. */
export async function warmUp(): Promise<void> {
  await Promise.allSettled(LAZY.map((name) => import(name)));
}
