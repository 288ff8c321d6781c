import { eventLogFeatures } from '../contract/event-log.features.ts'
import { openKafka } from './kafka.open.ts'

eventLogFeatures('kafka', openKafka)
