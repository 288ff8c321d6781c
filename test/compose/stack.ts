/** The running stack for tests: its containers, its CLI, its database. */
import { setTimeout as pause } from 'node:timers/promises'
import { compose, docker, done, place } from './docker.ts'

export const SERVICES = ['gateway', 'scorer', 'trainer', 'publisher', 'projections'] as const
export const SCALED = ['docker-compose.scale.yml'] as const

/** Resolves with the first value of `look` that is not null. */
export const until = async <T>(what: string, look: () => Promise<T | null | false>, limit = 120_000): Promise<T> => {
  for (const end = Date.now() + limit; ; await pause(150)) {
    const found = await look()
    if (found !== null && found !== false) return found
    if (Date.now() > end) throw new Error(`${what}: not within ${limit / 1000} s`)
  }
}

export type Container = {
  id: string
  name: string
  pid: number
  running: boolean
  healthy: boolean
  exit: number
  /** The number of restarts by Docker. */
  restarts: number
  /** The port on loopback that leads to it. */
  port: number | null
}

type Inspected = {
  Id: string
  Name: string
  RestartCount: number
  State: { Pid: number; Running: boolean; ExitCode: number; Health?: { Status: string } }
  NetworkSettings: { Ports: Record<string, { HostPort: string }[] | null> }
}

export const inspect = async (ids: readonly string[]): Promise<Container[]> => {
  if (ids.length === 0) return []
  const found = JSON.parse(await done(['inspect', ...ids])) as Inspected[]
  return found.map(({ Id, Name, RestartCount, State, NetworkSettings }) => {
    const port = NetworkSettings.Ports['30000/tcp']?.[0]?.HostPort
    return {
      id: Id,
      name: Name.slice(1),
      pid: State.Pid,
      running: State.Running,
      healthy: State.Health?.Status === 'healthy',
      exit: State.ExitCode,
      restarts: RestartCount,
      port: port === undefined ? null : Number(port),
    }
  })
}

export const containers = async (service: string): Promise<Container[]> =>
  (await inspect((await compose(['ps', '-a', '-q', service])).split('\n').filter(Boolean))).toSorted((a, b) =>
    a.name.localeCompare(b.name),
  )

/**
 * Ends a container as a fault does, with SIGKILL from outside. (After `docker kill` Docker does not restart a
 * container, and process 1 cannot be killed from inside.)
 */
export const crash = async ({ id }: Container): Promise<void> => {
  const [{ pid, name }] = (await inspect([id])) as [Container]
  if (pid === 0) throw new Error(`${name} does not run`)
  await done([
    'run',
    '--rm',
    '--pid=host',
    '--network=none',
    '--user=0',
    'instar',
    '-e',
    `process.kill(${pid}, 'SIGKILL')`,
  ])
}

/** Resolves when Docker has restarted the container and it is healthy. */
export const back = async ({ id, restarts, name }: Container, limit = 180_000): Promise<Container> => {
  try {
    return await until(
      `${name} is back`,
      async () => {
        const [now] = await inspect([id])
        return now !== undefined && now.restarts > restarts && now.healthy && now
      },
      limit,
    )
  } catch (error) {
    throw new Error(
      `${(error as Error).message}\n${JSON.stringify(await inspect([id]))}\n${await done(['logs', '--tail', '30', id])}`,
      { cause: error },
    )
  }
}

/** A CLI command as in the README; the last line of its output. */
export const instar = async <T>(...args: string[]): Promise<T> => {
  const out = await compose(['run', '--rm', '-T', 'instar', ...args, '--json'], { limit: 240_000 })
  return JSON.parse(out.trimEnd().split('\n').at(-1)!) as T
}

/** The PostgreSQL volume of an older stack, in which `instar` was the superuser with the password `instar`. */
export const olderDatabase = async (): Promise<void> => {
  const { project } = place()
  const [name, volume] = [`${project}-older`, `${project}_postgres-data`]
  const label = (is: string): string[] => ['--label', `com.docker.compose.${is}`]
  await done(['volume', 'create', ...label(`project=${project}`), ...label('volume=postgres-data'), volume])
  const set = ['USER', 'DB', 'PASSWORD'].flatMap((variable) => ['-e', `POSTGRES_${variable}=instar`])
  await done([
    'run',
    '-d',
    '--rm',
    '--name',
    name,
    '-v',
    `${volume}:/var/lib/postgresql/data`,
    ...set,
    '-e',
    'PGPASSWORD=instar',
    'postgres:17',
  ])
  try {
    // It answers on TCP only after its initialisation.
    await until(
      'the older server answers',
      async () => (await docker(['exec', name, 'pg_isready', '-h', '127.0.0.1', '-U', 'instar'])).code === 0,
    )
    const statements = [
      "create role registry login password 'instar'",
      'create database registry owner registry',
      'create table of_old as select 7 as a',
    ]
    await done(['exec', name, 'psql', '-h', '127.0.0.1', '-U', 'instar', ...statements.flatMap((one) => ['-c', one])])
  } finally {
    await done(['stop', name])
  }
}

/** Rows, by psql in the database's container. */
export const psql = async <T>(query: string): Promise<T[]> =>
  JSON.parse(
    await compose([
      'exec',
      '-T',
      'postgres',
      'psql',
      '-U',
      'instar',
      '-At',
      '-c',
      `select coalesce(json_agg(x), '[]') from (${query}) x`,
    ]),
  ) as T[]

/** The containers, volumes and networks that Docker still has of the project. */
export const remains = async (): Promise<string[]> => {
  const label = `label=com.docker.compose.project=${place().project}`
  const lists = [
    ['ps', '-a', '-q'],
    ['volume', 'ls', '-q'],
    ['network', 'ls', '-q'],
  ].map((list) => done([...list, '--filter', label]))
  return (await Promise.all(lists)).flatMap((list) => list.split('\n').filter(Boolean))
}

export type Version = { version: number; parent: number | null; sha256: string | null; status: string }
export const versions = (): Promise<Version[]> => instar<Version[]>('versions')
