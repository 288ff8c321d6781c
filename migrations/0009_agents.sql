ALTER TABLE "turns" ADD COLUMN "agent" text;--> statement-breakpoint
CREATE INDEX "turns_agent" ON "turns" USING btree ("policy","agent");