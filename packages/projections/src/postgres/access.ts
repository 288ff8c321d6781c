/**
 * Authentication of the embedded server: the operating system user that runs Instar, and root, may log in over the
 * socket. The method `peer` gets the user from the kernel, so there are no passwords, and other users are refused.
 */
import { chownSync, renameSync, writeFileSync } from 'node:fs'
import { userInfo } from 'node:os'
import { join } from 'node:path'
import type { ServerPaths } from './server-paths.ts'
import { READER } from './reader.ts'
import { ADMIN, MOVING, OWNER } from './roles.ts'

const ROLES = [ADMIN, OWNER, READER, MOVING]

const quoted = (name: string): string => `"${name.replaceAll('"', '""')}"`

/** Writes pg_hba.conf and pg_ident.conf. Called at every start, since clusters of older builds trusted all clients. */
export const writeAccess = (paths: ServerPaths): void => {
  const users = [...new Set([userInfo().username, 'root'])]
  const files = {
    'pg_hba.conf': 'local all all peer map=instar\n',
    'pg_ident.conf': users.flatMap((user) => ROLES.map((role) => `instar ${quoted(user)} ${role}\n`)).join(''),
  }
  for (const [name, text] of Object.entries(files)) {
    const path = join(paths.data, name)
    writeFileSync(`${path}.new`, text, { mode: 0o600 })
    if (paths.user) chownSync(`${path}.new`, paths.user.uid, paths.user.gid)
    renameSync(`${path}.new`, path)
  }
}
