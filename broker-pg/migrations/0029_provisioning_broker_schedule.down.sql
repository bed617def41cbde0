-- Deletes due times, back-off, leases and turns, which the next sweep restores, and permits. An operator has to
-- set pauses and brakes again.

DROP TRIGGER provisioned_resources_leave_shared_config ON plexsphere.provisioned_resources;
DROP FUNCTION plexsphere.provisioning_leave_shared_config();
DROP TABLE plexsphere.provisioning_shared_config_users;
DROP TABLE plexsphere.provisioning_shared_configs;
DROP SEQUENCE plexsphere.provisioning_shared_config_marks;
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
