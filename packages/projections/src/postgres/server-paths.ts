/**
 * The paths of the embedded PostgreSQL. By default all are inside one folder: `data/`, `run/` (the socket) and
 * `postgres.log`. In two cases parts are in a private temporary folder, whose path is stored in `place.json`:
 * - The path of the socket would exceed the length of a unix socket address.
 * - Instar runs as root, which PostgreSQL refuses. The server then runs with a user id without a name and without other
 *   processes, and this user must be able to reach data and programs from the root directory.
 */
import { randomInt } from 'node:crypto'
import {
  chmodSync,
  existsSync,
  lchownSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { readRegularFile } from '@instar/events/regular-file'

/** The user that runs the server; null: the user that runs Instar. */
type ServerUser = { uid: number; gid: number } | null

export type ServerPaths = { folder: string; home: string; data: string; sockets: string; log: string; user: ServerUser }

export const PORT = 5432
/** User id of `nobody`, which owns clusters that older builds created as root. Other programs may run as this user. */
export const NOBODY = 65534
/** User ids that systemd reserves for dynamic users (61184 to 65519); no distribution assigns names to them. */
const UNNAMED = { first: 61_184, count: 4336 }
/** Maximum length of a unix socket address: the size of sun_path without the terminating zero. */
const ADDRESS_BYTES = process.platform === 'darwin' ? 103 : 107

const isRoot = (): boolean => process.getuid?.() === 0

/** Whether any user may enter all directories from the root directory to `path`. */
export const othersMayEnter = (path: string): boolean => {
  for (let at = path; ; at = dirname(at)) {
    if ((statSync(at).mode & 0o001) === 0) return false
    if (dirname(at) === at) return true
  }
}

/** Creates a private folder in the temporary directory for the paths of `folder`. */
const privateFolder = (folder: string, mode: number): string => {
  const temporary = isRoot() && !othersMayEnter(tmpdir()) ? '/tmp' : tmpdir()
  removeOrphans(temporary)
  const path = mkdtempSync(join(temporary, PREFIX))
  writeFileSync(join(path, BELONGS), folder)
  chmodSync(path, mode)
  return path
}

/**
 * Removes private folders whose owning folder no longer exists or no longer refers to them; only this user's own, since
 * another user could put a pipe there, which would be waited for, or a link in place of what is deleted.
 */
const removeOrphans = (temporary: string): void => {
  for (const name of readdirSync(temporary)) {
    const path = join(temporary, name)
    const info = name.startsWith(PREFIX) ? lstatSync(path, { throwIfNoEntry: false }) : undefined
    if (!info?.isDirectory() || info.uid !== (process.getuid?.() ?? info.uid) || info.mtimeMs > Date.now() - MIN_AGE_MS)
      continue
    const belongs = textOf(join(path, BELONGS))
    if (belongs === null) continue
    const inUse = textOf(join(belongs, 'place.json'))?.includes(JSON.stringify(path).slice(1, -1)) ?? false
    if (!inUse && !existsSync(join(path, 'data/postmaster.pid'))) rmSync(path, { recursive: true, force: true })
  }
}

/** Null for what is absent, or no small file. */
const textOf = (file: string): string | null => {
  try {
    return readRegularFile(file, SMALL_BYTES).toString('utf8')
  } catch {
    return null
  }
}

const SMALL_BYTES = 64 * 1024
const PREFIX = 'ipg-'
const BELONGS = 'belongs-to'
/** A younger folder may not be recorded in `place.json` yet. */
const MIN_AGE_MS = 60_000
const isOwnUser = (uid: number): boolean => uid === process.getuid?.() || uid === NOBODY || isUnnamed(uid)
const isUnnamed = (uid: number | undefined): uid is number =>
  uid !== undefined && uid >= UNNAMED.first && uid < UNNAMED.first + UNNAMED.count

/** The content of `place.json`. `uid`: user id of the server if root starts it. */
type StoredPaths = { folder: string; home: string; sockets: string; uid?: number }

/** The stored paths of `folder`, if they exist and belong to a user of Instar. */
const readPaths = (folder: string): StoredPaths | undefined => {
  const file = join(folder, 'place.json')
  if (!existsSync(file)) return undefined
  const paths = parsePaths(readFileSync(file, 'utf8'))
  if (paths?.folder !== folder) return undefined
  const valid = [paths.home, paths.sockets].every(
    (path) => existsSync(path) && lstatSync(path).isDirectory() && isOwnUser(lstatSync(path).uid),
  )
  return valid ? paths : undefined
}

/** Undefined for what a power failure has left of the file. */
const parsePaths = (text: string): StoredPaths | undefined => {
  try {
    const paths = JSON.parse(text) as Partial<StoredPaths> | null
    const isComplete = [paths?.folder, paths?.home, paths?.sockets].every((path) => typeof path === 'string')
    return isComplete ? (paths as StoredPaths) : undefined
  } catch {
    return undefined
  }
}

const socketFits = (sockets: string): boolean => Buffer.byteLength(join(sockets, `.s.PGSQL.${PORT}`)) <= ADDRESS_BYTES

/** The paths that an earlier start has stored; undefined if there are none. Creates nothing. */
export const existingPaths = (folder: string): ServerPaths | undefined => {
  if (!existsSync(folder)) return undefined
  const paths = readPaths(realpathSync(folder))
  return paths && layout(paths)
}

const layout = ({ folder, home, sockets, uid }: StoredPaths): ServerPaths => ({
  folder,
  home,
  sockets,
  data: join(home, 'data'),
  log: join(folder, 'postgres.log'),
  user: isRoot() ? { uid: uid ?? NOBODY, gid: uid ?? NOBODY } : null,
})

/** Returns the paths of `path` and creates missing folders. Idempotent. */
export const makePaths = (path: string): ServerPaths => {
  mkdirSync(path, { recursive: true, mode: 0o755 })
  const folder = realpathSync(path)
  let paths = readPaths(folder)
  if (!paths) {
    const home = isRoot() && !othersMayEnter(folder) ? privateFolder(folder, 0o711) : folder
    const inside = join(home, 'run')
    const sockets = socketFits(inside) ? inside : privateFolder(folder, 0o700)
    mkdirSync(sockets, { recursive: true, mode: 0o700 })
    paths = { folder, home, sockets }
    writePaths(paths)
  }
  if (isRoot() && !isUnnamed(paths.uid)) {
    paths = { ...paths, uid: UNNAMED.first + randomInt(UNNAMED.count) }
    writePaths(paths)
  }
  return layout(paths)
}

const writePaths = (paths: StoredPaths): void => {
  const file = join(paths.folder, 'place.json')
  writeFileSync(`${file}.new`, `${JSON.stringify(paths)}\n`)
  renameSync(`${file}.new`, file)
}

/**
 * Makes the server's user the owner of the cluster, which in clusters of older builds is `nobody`. No server may be
 * running.
 */
export const ownData = ({ data, sockets, user }: ServerPaths): void => {
  if (!user) return
  for (const folder of [data, sockets]) {
    if (lstatSync(folder).uid !== user.uid) changeOwner(folder, user)
  }
}

/** Changes a folder after its contents, so that an interrupted change is repeated. */
const changeOwner = (path: string, user: { uid: number; gid: number }): void => {
  if (lstatSync(path).isDirectory()) for (const name of readdirSync(path)) changeOwner(join(path, name), user)
  lchownSync(path, user.uid, user.gid)
}
