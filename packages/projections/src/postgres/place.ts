/**
 * Where the embedded PostgreSQL keeps its things. Normally all of it is inside the folder it is given:
 * `data/`, `run/` (the socket), `postgres.log`. Two cases move parts of it to a private temporary folder,
 * whose name is kept in the folder's `place.json`:
 * - the socket's path would exceed what a unix address holds;
 * - Instar runs as root, which PostgreSQL refuses: its server then runs as a user of its own, without a name and with no
 *   other process, which must be able to reach data and programs from the root folder down.
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

/** The user that runs the server; null: the user that runs Instar. */
type ServerUser = { uid: number; gid: number } | null

export type ServerPaths = { folder: string; home: string; data: string; sockets: string; log: string; user: ServerUser }

export const PORT = 5432
/** The owner of clusters that older builds made as root; other programs run as it, too. */
export const NOBODY = 65534
/** Where systemd takes users for one service from (61184 to 65519): no distribution gives them names. */
const UNNAMED = { first: 61_184, count: 4336 }
/** sun_path less its closing zero. */
const ADDRESS_BYTES = process.platform === 'darwin' ? 103 : 107

const isRoot = (): boolean => process.getuid?.() === 0

/** Whether a user who owns nothing may enter `path` from the root folder down. */
export const othersMayEnter = (path: string): boolean => {
  for (let at = path; ; at = dirname(at)) {
    if ((statSync(at).mode & 0o001) === 0) return false
    if (dirname(at) === at) return true
  }
}

/** A new folder of ours for `folder`, outside of it. */
const privateFolder = (folder: string, mode: number): string => {
  const temporary = isRoot() && !othersMayEnter(tmpdir()) ? '/tmp' : tmpdir()
  sweep(temporary)
  const path = mkdtempSync(join(temporary, PREFIX))
  writeFileSync(join(path, BELONGS), folder)
  chmodSync(path, mode)
  return path
}

/** Removes what was made for folders that are no more. */
const sweep = (temporary: string): void => {
  for (const name of readdirSync(temporary)) {
    const path = join(temporary, name)
    const info = name.startsWith(PREFIX) ? lstatSync(path, { throwIfNoEntry: false }) : undefined
    if (
      !info?.isDirectory() ||
      !isOurs(info.uid) ||
      info.mtimeMs > Date.now() - SWEEP_AFTER ||
      !existsSync(join(path, BELONGS))
    )
      continue
    const file = join(readFileSync(join(path, BELONGS), 'utf8'), 'place.json')
    const wanted = existsSync(file) && readFileSync(file, 'utf8').includes(JSON.stringify(path).slice(1, -1))
    if (!wanted && !existsSync(join(path, 'data/postmaster.pid'))) rmSync(path, { recursive: true, force: true })
  }
}

const PREFIX = 'ipg-'
const BELONGS = 'belongs-to'
/** Milliseconds: a folder this young may not be written down yet. */
const SWEEP_AFTER = 60_000
const isOurs = (uid: number): boolean => uid === process.getuid?.() || uid === NOBODY || isUnnamed(uid)
const isUnnamed = (uid: number | undefined): uid is number =>
  uid !== undefined && uid >= UNNAMED.first && uid < UNNAMED.first + UNNAMED.count

/** `uid`: of the server, where root starts it. */
type StoredPaths = { folder: string; home: string; sockets: string; uid?: number }

/** The paths that an earlier start chose, if they exist and belong to us. */
const kept = (folder: string): StoredPaths | undefined => {
  const file = join(folder, 'place.json')
  if (!existsSync(file)) return undefined
  const place = JSON.parse(readFileSync(file, 'utf8')) as StoredPaths
  if (place.folder !== folder) return undefined
  const ours = [place.home, place.sockets].every(
    (path) => existsSync(path) && lstatSync(path).isDirectory() && isOurs(lstatSync(path).uid),
  )
  return ours ? place : undefined
}

const socketFits = (sockets: string): boolean => Buffer.byteLength(join(sockets, `.s.PGSQL.${PORT}`)) <= ADDRESS_BYTES

/** The place that an earlier start chose, without making anything; undefined if there is none. */
export const existingPlace = (folder: string): ServerPaths | undefined => {
  if (!existsSync(folder)) return undefined
  const place = kept(realpathSync(folder))
  return place && layout(place)
}

const layout = ({ folder, home, sockets, uid }: StoredPaths): ServerPaths => ({
  folder,
  home,
  sockets,
  data: join(home, 'data'),
  log: join(folder, 'postgres.log'),
  user: isRoot() ? { uid: uid ?? NOBODY, gid: uid ?? NOBODY } : null,
})

/** Makes the folders that are missing. Idempotent. */
export const makePlace = (given: string): ServerPaths => {
  mkdirSync(given, { recursive: true, mode: 0o755 })
  const folder = realpathSync(given)
  let chosen = kept(folder)
  if (!chosen) {
    const home = isRoot() && !othersMayEnter(folder) ? privateFolder(folder, 0o711) : folder
    const inside = join(home, 'run')
    const sockets = socketFits(inside) ? inside : privateFolder(folder, 0o700)
    mkdirSync(sockets, { recursive: true, mode: 0o700 })
    chosen = { folder, home, sockets }
    write(chosen)
  }
  if (isRoot() && !isUnnamed(chosen.uid)) {
    chosen = { ...chosen, uid: UNNAMED.first + randomInt(UNNAMED.count) }
    write(chosen)
  }
  return layout(chosen)
}

const write = (chosen: StoredPaths): void => {
  const file = join(chosen.folder, 'place.json')
  writeFileSync(`${file}.new`, `${JSON.stringify(chosen)}\n`)
  renameSync(`${file}.new`, file)
}

/**
 * Changes the owner of the cluster to the user that runs it; no server may run there. Takes over what an older build
 * gave to `nobody`.
 */
export const ownData = ({ data, sockets, user }: ServerPaths): void => {
  if (!user) return
  for (const folder of [data, sockets]) {
    if (lstatSync(folder).uid !== user.uid) own(folder, user)
  }
}

/** The folder itself comes last: an end in the middle is begun again. */
const own = (path: string, user: { uid: number; gid: number }): void => {
  if (lstatSync(path).isDirectory()) for (const name of readdirSync(path)) own(join(path, name), user)
  lchownSync(path, user.uid, user.gid)
}
