/** The Java programs: Maven fetches the artifacts of java/pom.xml, digests are checked, javac compiles. */
import { createHash } from 'node:crypto'
import { spawnSync } from 'node:child_process'
import { globSync, mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import path from 'node:path'

const HERE = path.join(import.meta.dirname, 'java')
const BUILT = path.resolve(import.meta.dirname, '../../../.cache/java-clients')
const JARS = path.join(BUILT, 'jars')
const CLASSES = path.join(BUILT, 'classes')
const INSTALL_MS = 10 * 60_000
const JDK = 17

export const NO_JAVA = `a JDK of version ${JDK} or newer and Maven are needed`

const pom = readFileSync(path.join(HERE, 'pom.xml'), 'utf8')
const digests = readFileSync(path.join(HERE, 'jars.sha256'), 'utf8')

/** Artifact and version, as pom.xml pins them. */
export const javaArtifact = (name: string): string =>
  `${name} ${new RegExp(`<artifactId>${name}</artifactId>\\s*<version>(.*)</version>`).exec(pom)![1]}`

const hasJava = (): boolean => {
  const { status, stdout } = spawnSync('javac', ['-version'], { encoding: 'utf8' })
  const major = Number(/^javac (\d+)/.exec(status === 0 ? stdout : '')?.[1] ?? 0)
  return major >= JDK && spawnSync('mvn', ['-version']).status === 0
}

const run = (program: string, args: readonly string[]): void => {
  const { status, error } = spawnSync(program, args, { cwd: HERE, stdio: 'inherit', timeout: INSTALL_MS })
  if (status !== 0) throw new Error(`${program} ${args.join(' ')}: ${error?.message ?? `exit code ${status}`}`)
}

/** As `sha256sum *.jar` prints it. */
const digestsOf = (folder: string): string =>
  readdirSync(folder)
    .toSorted()
    .map((name) => {
      const digest = createHash('sha256')
        .update(readFileSync(path.join(folder, name)))
        .digest('hex')
      return `${digest}  ${name}\n`
    })
    .join('')

/** The class path of the programs, built once per pom, digests and sources; null without a JDK or Maven. */
export const javaClients = (): string | null => {
  if (!hasJava()) return null
  const sources = globSync('*.java', { cwd: HERE })
    .toSorted()
    .map((name) => path.join(HERE, name))
  const hash = createHash('sha256').update(pom).update(digests)
  for (const source of sources) hash.update(readFileSync(source))
  const wanted = hash.digest('hex')
  const classPath = [CLASSES, path.join(JARS, '*')].join(path.delimiter)
  const mark = path.join(BUILT, 'installed')
  if (installed(mark) === wanted) return classPath
  rmSync(BUILT, { recursive: true, force: true })
  mkdirSync(CLASSES, { recursive: true })
  run('mvn', ['-q', '-B', '--strict-checksums', 'dependency:copy-dependencies', `-DoutputDirectory=${JARS}`])
  const found = digestsOf(JARS)
  if (found !== digests) throw new Error(`Maven brought other files than jars.sha256 has digests of:\n${found}`)
  run('javac', ['-proc:none', '-cp', path.join(JARS, '*'), '-d', CLASSES, ...sources])
  writeFileSync(mark, wanted)
  return classPath
}

const installed = (mark: string): string | null => {
  try {
    return readFileSync(mark, 'utf8')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null
    throw error
  }
}
