/**
 * Who may log in to the embedded server: the operating system's user that runs Instar, and root, over the socket. The
 * kernel says who is on the other end (`peer`), so there is no password to keep, and a process of another user that
 * reaches the socket is refused.
 */
import { chownSync, renameSync, writeFileSync } from 'node:fs'
import { userInfo } from 'node:os'
import { join } from 'node:path'
import type { ServerPaths } from './place.ts'
import { READER } from './reader.ts'
import { ADMIN, MOVING, OWNER } from './roles.ts'

const ROLES = [ADMIN, OWNER, READER, MOVING]

const quoted = (name: string): string => `"${name.replaceAll('"', '""')}"`

/** Written at every start: a cluster of an older build trusted any client of its socket. */
export const writeAccess = (place: ServerPaths): void => {
  const people = [...new Set([userInfo().username, 'root'])]
  const files = {
    'pg_hba.conf': 'local all all peer map=instar\n',
    'pg_ident.conf': people.flatMap((person) => ROLES.map((role) => `instar ${quoted(person)} ${role}\n`)).join(''),
  }
  for (const [name, text] of Object.entries(files)) {
    const path = join(place.data, name)
    writeFileSync(`${path}.new`, text, { mode: 0o600 })
    if (place.user) chownSync(`${path}.new`, place.user.uid, place.user.gid)
    renameSync(`${path}.new`, path)
  }
}
