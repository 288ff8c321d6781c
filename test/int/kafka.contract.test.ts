import { eventLogFeatures } from '../kit/event-log/features.ts'
import { openKafka } from './kafka.open.ts'

eventLogFeatures('kafka', openKafka)
