/**
 * The job `roles` of the compose file: creates the PostgreSQL roles before other services start. Their passwords are in
 * files under /secrets. POSTGRES_PASSWORD: the password with which an older build created the stack (default `instar`).
 */
import { readFileSync } from 'node:fs'
import { printable } from '@instar/process/printable'
import { isLoginRefused } from '../postgres/roles.ts'
import { setupRoles } from '../postgres/setup.ts'

/**
 * Neither the passwords of the files nor the older one is right: the secrets were recreated and the database was not.
 */
const REFUSED =
  'Set POSTGRES_PASSWORD to the password with which the stack was created, or delete the volume postgres-data, ' +
  'which is refilled from the log.\n'

const secret = (name: string): string => readFileSync(`/secrets/${name}`, 'utf8').trim()

try {
  await setupRoles({
    admin: 'postgres://postgres@postgres:5432/postgres',
    passwords: { admin: secret('postgres/admin'), owner: secret('instar/owner'), reader: secret('instar/reader') },
    older: process.env['POSTGRES_PASSWORD'] || 'instar',
    neighbours: { registry: secret('registry/password') },
  })
} catch (error) {
  process.stderr.write(
    `${printable((error as Error).message)}\n${isLoginRefused((error as Error).cause) ? REFUSED : ''}`,
  )
  process.exitCode = 1
}
