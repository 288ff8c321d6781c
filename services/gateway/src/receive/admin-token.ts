/**
 * The admin token authorizes commands where there are no API keys. Only users who can read the data folder have it.
 * Other users of the machine and pages in a browser reach the gateway's port but not its files.
 */
import { InstarError } from '@instar/events'
import { randomBytes } from 'node:crypto'
import { linkSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'
import { LEAST_TOKEN } from './core/keys.ts'

/** The header of the token; `Authorization: Bearer` works as well. */
export const ADMIN_TOKEN_HEADER = 'x-instar-admin-token'

/** Null if there is no file. Throws `data_unreadable` if it cannot be read or holds no token. */
export const readAdminToken = (file: string): string | null => {
  let text: string
  try {
    text = readFileSync(file, 'utf8').trim()
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code === 'ENOENT') return null
    throw new InstarError(
      'data_unreadable',
      `${file}, the admin token, cannot be read: ${(cause as Error).message}`,
      { file },
      { cause },
    )
  }
  if (text.length >= LEAST_TOKEN) return text
  throw new InstarError(
    'data_unreadable',
    `${file} holds no admin token of at least ${LEAST_TOKEN} characters; without the file one is made.`,
    { file },
  )
}

/**
 * Reads the token, or creates one that only its owner can read. If several processes start at once, one of them creates
 * it. Throws `data_unreadable`.
 */
export const adminToken = (file: string): string => {
  const there = readAdminToken(file)
  if (there !== null) return there
  const own = `${file}.${process.pid}.${randomBytes(4).toString('hex')}.new`
  try {
    mkdirSync(dirname(file), { recursive: true, mode: 0o700 })
    writeFileSync(own, `instar-admin-${randomBytes(32).toString('base64url')}\n`, { mode: 0o600, flag: 'wx' })
    try {
      linkSync(own, file)
      rmSync(own)
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'EEXIST') rmSync(own)
      // On a file system without hard links, the last of several processes creates it.
      else renameSync(own, file)
    }
  } catch (cause) {
    throw new InstarError(
      'data_unreadable',
      `${file}, the admin token, cannot be made: ${(cause as Error).message}`,
      { file },
      { cause },
    )
  }
  return readAdminToken(file) ?? adminToken(file)
}
