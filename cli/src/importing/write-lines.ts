/** The file of an export. */
import { InstarError } from '@instar/events/errors'
import { rmSync } from 'node:fs'
import { open } from 'node:fs/promises'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'

const refusedFile = (message: string, cause: unknown): InstarError =>
  new InstarError('bad_request', message, { field: 'FILE' }, { cause })

const reasonOf = (cause: unknown): string => (cause as NodeJS.ErrnoException).code ?? (cause as Error).message

/**
 * Creates the file with mode 0600, and then the lines; deletes the file if it could not be written to its end. Throws
 * `bad_request`, `aborted`, and the errors of `lines`.
 */
export const writeLines = async (
  path: string,
  lines: () => AsyncIterable<string> | Promise<AsyncIterable<string>>,
  signal: AbortSignal,
): Promise<void> => {
  const file = await open(path, 'wx', 0o600).catch((cause: unknown) => {
    throw refusedFile(
      reasonOf(cause) === 'EEXIST'
        ? `${path} exists already; name another file, or delete it.`
        : `${path} cannot be written: ${reasonOf(cause)}.`,
      cause,
    )
  })
  try {
    await pipeline(Readable.from(await lines()), file.createWriteStream(), { signal })
  } catch (cause) {
    await file.close().catch(() => undefined)
    rmSync(path, { force: true })
    if (cause instanceof InstarError) throw cause
    if (signal.aborted)
      throw new InstarError(
        'aborted',
        `The export to ${path} was aborted; no file is left.`,
        { field: 'FILE' },
        { cause },
      )
    throw refusedFile(`${path} cannot be written: ${reasonOf(cause)}.`, cause)
  }
}
