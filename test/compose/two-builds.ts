/**
 * The image and services of a later build beside those of the compose file: each is as in the file under the name
 * `<service>-later`, after its own `setup-later`.
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { RecordName } from '@instar/events'
import { laterBuild } from '../upgrade/other-build.ts'
import { compose, done, place } from './docker.ts'
import { SERVICES } from './stack.ts'

const DOCKERFILE = `FROM instar
COPY schemas schemas
COPY packages/events/src/flow.ts packages/events/src/flow.ts
`
const IGNORED = '*\n!schemas\n!packages/events/src/flow.ts\n'

export type Later = {
  /** Override files for `compose`. */
  extra: readonly string[]
  services: readonly string[]
  /** The versions of records that only the later build has. */
  versions: Record<string, number>
  remove(): Promise<void>
}

type Config = { services: Record<string, Record<string, unknown>> }

/** The image is built on that of this build. */
export const laterServices = async (names: readonly RecordName[]): Promise<Later> => {
  const image = `${place().project}-later`
  const folder = mkdtempSync(join(tmpdir(), 'instar-two-builds-'))
  using later = laterBuild(names, [])
  writeFileSync(join(later.root, 'Dockerfile'), DOCKERFILE)
  writeFileSync(join(later.root, '.dockerignore'), IGNORED)
  await done(['build', '-q', '-t', image, later.root], { limit: 600_000 })
  const { services } = JSON.parse(await compose(['config', '--format', 'json'])) as Config
  const beside = (service: string, more: object): [string, object] => {
    const { build: _, ...said } = services[service]!
    return [`${service}-later`, { ...said, image, ...more }]
  }
  const file = join(folder, 'later.json')
  const prepared = { depends_on: { 'setup-later': { condition: 'service_completed_successfully' } } }
  writeFileSync(
    file,
    JSON.stringify({
      services: Object.fromEntries([
        // In this order, since the log belongs to the older build.
        beside('setup', { depends_on: { setup: { condition: 'service_completed_successfully' } } }),
        ...SERVICES.map((service) =>
          beside(service, {
            ...prepared,
            ...(service === 'gateway' ? { ports: [`127.0.0.1:${place().ports}:30000`] } : {}),
          }),
        ),
      ]),
    }),
  )
  return {
    extra: [file],
    services: SERVICES.map((service) => `${service}-later`),
    versions: later.versions,
    async remove() {
      rmSync(folder, { recursive: true, force: true })
      await done(['rmi', '-f', image])
    },
  }
}
