/** The Go programs, built from go/ with the modules whose digests are in go.sum. */
import { spawnSync } from 'node:child_process'
import { mkdirSync, readFileSync } from 'node:fs'
import path from 'node:path'

const HERE = path.join(import.meta.dirname, 'go')
const BUILT = path.resolve(import.meta.dirname, '../../../.cache/go-clients')
/** The first build compiles 20 MB of openai-go. */
const BUILD_MS = 20 * 60_000

const mod = readFileSync(path.join(HERE, 'go.mod'), 'utf8')
const [, MAJOR, MINOR] = /^go (\d+)\.(\d+)/m.exec(mod)!
export const NO_GO = `Go ${MAJOR}.${MINOR} or newer is needed`

/** A module and its version, as go.mod pins it. */
export const goModule = (name: string): string => `${name} ${new RegExp(`${name} (v\\S+)$`, 'm').exec(mod)![1]}`

const hasGo = (): boolean => {
  const env = { ...process.env, GOTOOLCHAIN: 'local', GOWORK: 'off' }
  const { status, stdout } = spawnSync('go', ['env', 'GOVERSION'], { encoding: 'utf8', env })
  const [, major, minor] = /^go(\d+)\.(\d+)/.exec(status === 0 ? stdout : '') ?? []
  return major === MAJOR && Number(minor) >= Number(MINOR)
}

/** The folder of the programs; Go caches builds itself. Null without a suitable Go. */
export const goClients = (): string | null => {
  if (!hasGo()) return null
  mkdirSync(BUILT, { recursive: true })
  const env = { ...process.env, GOTOOLCHAIN: 'local', GOWORK: 'off' }
  const args = ['build', '-mod=readonly', '-buildvcs=false', '-o', `${BUILT}${path.sep}`, './...']
  const { status, error } = spawnSync('go', args, { cwd: HERE, env, stdio: 'inherit', timeout: BUILD_MS })
  if (status !== 0) throw new Error(`go build: ${error?.message ?? `exit code ${status}`}`)
  return BUILT
}
