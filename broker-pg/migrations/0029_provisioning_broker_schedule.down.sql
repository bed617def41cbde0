-- Loses due times, back-off, pauses, leases and whose turn it is, which the next sweep makes up for; and the
-- brake: whoever set it has to look again.

DROP TRIGGER provisioned_resources_schedule ON plexsphere.provisioned_resources;
DROP FUNCTION plexsphere.provisioned_resources_schedule();
DROP TABLE plexsphere.provisioning_permits;
DROP TABLE plexsphere.provisioning_brake;
DROP TABLE plexsphere.provisioning_turns;
DROP TABLE plexsphere.provisioned_resource_schedule;
DROP FUNCTION plexsphere.provisioning_lane(text, text);
DROP DOMAIN plexsphere.provisioning_count;
DROP DOMAIN plexsphere.provisioning_attempts;
DROP DOMAIN plexsphere.provisioning_lane_name;
