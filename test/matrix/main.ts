// node main.js <platform> <feature>…: checks the features on Express or Fastify, one after the
// other, and then exits.
import 'reflect-metadata';
import type { Check, Platform } from './support/instances.js';

process.on('warning', ({ name, message }) => {
  if (name !== 'MaxListenersExceededWarning') return;
  console.error(message);
  process.exitCode = 1;
});

async function main(platform: Platform, features: string[]): Promise<void> {
  for (const feature of features) {
    const { check } = (await import(`./features/${feature}.js`)) as { check: Check };
    try {
      await check(platform);
      console.log(`ok ${feature}`);
    } catch (error) {
      console.log(`FAILED ${feature}`);
      console.error(error);
      process.exitCode = 1;
    }
  }
}

const [platform, ...features] = process.argv.slice(2) as [Platform, ...string[]];
void main(platform, features);
