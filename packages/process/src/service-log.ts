/** A log that is restricted to the topics that the flow table lists for a service. */
import { FLOW, requireTopic, type TopicAccess } from '@instar/events/flow'
import { logWith, type EventLog } from '@instar/log'

/** Other topics are refused with `internal`: `read` throws, the other methods reject. */
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
