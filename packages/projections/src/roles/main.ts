/**
 * The roles of the compose file's PostgreSQL, before anything else is made in it; ends. Their passwords are files under
 * /secrets. POSTGRES_PASSWORD: what a stack of an older build was made with (default `instar`, as it was then).
 */
import { readFileSync } from 'node:fs'
import { isLoginRefused } from '../postgres/roles.ts'
import { setupRoles } from '../postgres/setup.ts'

/** Neither the files' passwords nor the older one: the volumes of secrets were made anew, the database was not. */
const REFUSED =
  'Set POSTGRES_PASSWORD to the one that the stack was made with, or delete the volume postgres-data, ' +
  'which is filled again from the log.\n'

const secret = (name: string): string => readFileSync(`/secrets/${name}`, 'utf8').trim()

try {
  await setupRoles({
    admin: 'postgres://postgres@postgres:5432/postgres',
    passwords: { admin: secret('postgres/admin'), owner: secret('instar/owner'), reader: secret('instar/reader') },
    older: process.env['POSTGRES_PASSWORD'] || 'instar',
    neighbours: { registry: secret('registry/password') },
  })
} catch (error) {
  process.stderr.write(`${(error as Error).message}\n${isLoginRefused((error as Error).cause) ? REFUSED : ''}`)
  process.exitCode = 1
}
