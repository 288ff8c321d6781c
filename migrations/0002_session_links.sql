CREATE TABLE "session_links" (
	"session_id" text PRIMARY KEY NOT NULL,
	"parent_session_id" text NOT NULL,
	"at" timestamp(3) with time zone NOT NULL,
	"record_id" text NOT NULL
);
--> statement-breakpoint
CREATE INDEX "session_links_parent" ON "session_links" USING btree ("parent_session_id");