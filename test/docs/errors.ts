/** Generates docs/errors.md from the table of errors: `node bootstrap.cjs test/docs/errors.ts`. */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { ERRORS } from '@instar/events/errors'
import { ROOT } from '../../tools/tree.ts'

export const ERRORS_PAGE = join(ROOT, 'docs', 'errors.md')

const HEAD = `# Errors

Every error that Instar shows to a user or a client has one of these codes. The meaning, the HTTP status and the retry column
of a code do not change between releases. Over HTTP the code is the \`code\` of the error object, in the shape of the dialect; on
the command line it precedes the message. The message states the values of the individual case.

The table is \`packages/events/src/errors.ts\`; a test holds this page equal to it.

| code | HTTP | retry? | what happened | what to do |
|---|---|---|---|---|
`

/** Pipes would end a table cell. */
const cell = (text: string): string => text.replaceAll('|', '\\|')

export const errorsPage = (): string =>
  HEAD +
  Object.entries(ERRORS)
    .map(
      ([code, { status, retryable, meaning, todo }]) =>
        `| \`${code}\` | ${status} | ${retryable ? 'yes' : 'no'} | ${cell(meaning)} | ${cell(todo)} |\n`,
    )
    .join('')

if (process.argv[1] === import.meta.filename) writeFileSync(ERRORS_PAGE, errorsPage())
