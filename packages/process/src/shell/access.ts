/** How Kafka and the registry are reached: the settings, with the files that they name read. */
import { InstarError } from '@instar/events'
import type { RegistryAccess, Security } from '@instar/log/kafka/index'
import { readFileSync } from 'node:fs'
import type { Settings } from '../environment.ts'

/** Undefined for a cluster that asks for nothing. Throws `bad_request` for a file that cannot be read. */
export const kafkaSecurity = ({ kafka }: Pick<Settings, 'kafka'>): Security | undefined => {
  const { ssl, ca, cert, key, sasl } = kafka
  if (!ssl && !sasl) return undefined
  return {
    ...(ssl
      ? {
          tls: {
            ...text('ca', 'INSTAR_KAFKA_CA', ca),
            ...text('cert', 'INSTAR_KAFKA_CERT', cert),
            ...text('key', 'INSTAR_KAFKA_KEY', key),
          },
        }
      : {}),
    ...(sasl
      ? {
          sasl: {
            mechanism: sasl.mechanism,
            username: sasl.username,
            password: sasl.password ?? secret('INSTAR_KAFKA_PASSWORD_FILE', sasl.passwordFile!),
          },
        }
      : {}),
  }
}

/** Kafka's records name their schemas by a number that a registry gave. Throws `bad_request` where none is named, or a file cannot be read. */
export const registryOf = ({
  registry,
  registryUser,
  log,
}: Pick<Settings, 'registry' | 'registryUser' | 'log'>): RegistryAccess => {
  if (registry === null)
    throw new InstarError(
      'bad_request',
      `INSTAR_LOG=${log} needs INSTAR_REGISTRY: the address of a Confluent-compatible schema registry.`,
      { field: 'INSTAR_REGISTRY' },
    )
  const { username, password, passwordFile, ca } = registryUser
  if (new URL(registry).username !== '')
    throw new InstarError(
      'bad_request',
      'INSTAR_REGISTRY holds a user. Name it in INSTAR_REGISTRY_USERNAME and INSTAR_REGISTRY_PASSWORD: an address is shown in messages.',
      { field: 'INSTAR_REGISTRY' },
    )
  return {
    url: registry,
    ...text('ca', 'INSTAR_REGISTRY_CA', ca),
    ...(username === null
      ? {}
      : { username, password: password ?? secret('INSTAR_REGISTRY_PASSWORD_FILE', passwordFile!) }),
  }
}

const text = <K extends string>(name: K, variable: string, file: string | null): Partial<Record<K, string>> =>
  file === null ? {} : ({ [name]: read(variable, file) } as Record<K, string>)

/** One line break at the end belongs to the file, not to the secret. */
const secret = (variable: string, file: string): string => read(variable, file).replace(/\r?\n$/, '')

const read = (variable: string, file: string): string => {
  try {
    return readFileSync(file, 'utf8')
  } catch (cause) {
    throw new InstarError(
      'bad_request',
      `${variable}=${file} cannot be read: ${(cause as Error).message}`,
      { field: variable },
      { cause },
    )
  }
}
