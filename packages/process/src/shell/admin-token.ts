/**
 * The admin token authorizes commands where there are no API keys. Only users who can read the data folder have it.
 * Other users of the machine and pages in a browser reach the gateway's port but not its files.
 */
import { InstarError } from '@instar/events/errors'
import { randomBytes } from 'node:crypto'
import { closeSync, constants, fstatSync, linkSync, mkdirSync, openSync } from 'node:fs'
import { readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'
import { LEAST_TOKEN } from '../environment.ts'

/** The header of the token; `Authorization: Bearer` works as well. */
export const ADMIN_TOKEN_HEADER = 'x-instar-admin-token'

/**
 * Null if there is no file. Throws `file_not_private` if another user than `uid` may have written or read it, and
 * `data_unreadable` if it cannot be read or holds no token. `uid` undefined: the system has no user ids.
 */
export const readAdminToken = (file: string, uid: number | undefined = process.geteuid?.()): string | null => {
  let text: string
  try {
    text = readPrivate(file, uid).trim()
  } catch (cause) {
    if (cause instanceof InstarError) throw cause
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

const { O_CREAT, O_EXCL, O_NOFOLLOW, O_NONBLOCK, O_RDONLY, O_WRONLY } = constants
/** Permissions of the group and of others. */
const NOT_OWNER = 0o077

/** Checks the file that it reads: another one may be put at the path meanwhile. */
const readPrivate = (file: string, uid: number | undefined): string => {
  const opened = openPrivate(file)
  try {
    const stat = fstatSync(opened)
    const mode = (stat.mode & 0o7777).toString(8).padStart(4, '0')
    if (!stat.isFile()) throw notPrivate(file, 'is not a file', 'Remove it: a start makes another.')
    if (uid !== undefined && stat.uid !== uid)
      throw notPrivate(
        file,
        `belongs to the user ${stat.uid}, not ${uid}, who runs this process (mode ${mode})`,
        `Run this as that user, or: chown ${uid} ${file}`,
      )
    if (uid !== undefined && (stat.mode & NOT_OWNER) !== 0)
      throw notPrivate(file, `has mode ${mode}, so that other users may read or change it`, `Run: chmod 600 ${file}`)
    return readFileSync(opened, 'utf8')
  } finally {
    closeSync(opened)
  }
}

/** Throws `file_not_private` for a symbolic link. */
const openPrivate = (file: string): number => {
  try {
    // Without O_NONBLOCK a named pipe would block until another process writes to it.
    return openSync(file, O_RDONLY | O_NOFOLLOW | O_NONBLOCK)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ELOOP') throw error
    throw notPrivate(file, 'is a symbolic link', 'Replace it by the file itself, with mode 0600.')
  }
}

const notPrivate = (file: string, what: string, todo: string): InstarError =>
  new InstarError('file_not_private', `${file}, the admin token, ${what}. ${todo}`, { file })

/**
 * Reads the token, or creates one that only its owner can read. If several processes start at once, one of them creates
 * it. Throws as `readAdminToken`.
 */
export const adminToken = (file: string): string => {
  const there = readAdminToken(file)
  if (there !== null) return there
  const own = `${file}.${process.pid}.${randomBytes(4).toString('hex')}.new`
  try {
    mkdirSync(dirname(file), { recursive: true, mode: 0o700 })
    const opened = openSync(own, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0o600)
    try {
      writeFileSync(opened, `instar-admin-${randomBytes(32).toString('base64url')}\n`)
    } finally {
      closeSync(opened)
    }
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
