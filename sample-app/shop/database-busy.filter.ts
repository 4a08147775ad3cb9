import { type ArgumentsHost, Catch, ServiceUnavailableException } from '@nestjs/common';
import { BaseExceptionFilter } from '@nestjs/core';
import { QueryFailedError } from 'typeorm';

/** Answers 503 if another process, for example a paused one, keeps the write lock of SQLite. */
@Catch(QueryFailedError)
export class DatabaseBusyFilter extends BaseExceptionFilter {
  override catch(error: QueryFailedError<Error & { code?: string }>, host: ArgumentsHost): void {
    const isBusy = error.driverError.code?.startsWith('SQLITE_BUSY');
    super.catch(
      isBusy ? new ServiceUnavailableException('the database is busy: try again later') : error,
      host,
    );
  }
}
