import type { LoggerService } from '@nestjs/common';

/** Something that a service has opened and closes at the shutdown. */
export interface Closeable {
  close(): Promise<void>;
}

/** Closes recipes. The error of one is logged, and does not keep the shutdown from waiting for the others. */
export async function closeEach(
  recipes: readonly (Closeable | undefined)[],
  logger: LoggerService,
): Promise<void> {
  const close = async (recipe: Closeable | undefined) => {
    try {
      await recipe?.close();
    } catch (error) {
      logger.error(`a recipe was not closed: ${String(error)}`, (error as Error).stack);
    }
  };
  await Promise.all(recipes.map(close));
}
