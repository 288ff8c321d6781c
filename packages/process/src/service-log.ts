/** A log as one service may use it: of the topics, those that the flow table gives to it. */
import { FLOW, requireTopic, type TopicAccess } from '@instar/events/flow'
import type { EventLog } from '@instar/log'
import { logWith } from './log-with.ts'

/** Appending to, or reading of, another topic rejects with `internal`; `read` throws it. */
export const serviceLog = (log: EventLog, service: string, flow: TopicAccess = FLOW): EventLog =>
  logWith<EventLog>(log, {
    async append(records) {
      for (const { topic } of records) requireTopic(flow, topic, 'writers', service)
      return log.append(records)
    },
    async subscribe(options) {
      for (const topic of options.topics) requireTopic(flow, topic, 'readers', service)
      return log.subscribe(options)
    },
    read(topic, options) {
      requireTopic(flow, topic, 'readers', service)
      return log.read(topic, options)
    },
    async at(position) {
      requireTopic(flow, position.topic, 'readers', service)
      return log.at(position)
    },
  })
