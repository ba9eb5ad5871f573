/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Broken configurations: the messages to the administrator, and their places.
 * docs/contributing/complaints.md: M1, M12.
 */
#include "config-fixture.h"

#include "configuration/warnings.h"
#include "drivers/model/driver.h"

static const struct {
	const char *text, *problems;
} broken[] = {
	{ "log_level = 1;",
		"1: log_level: must be \"error\", \"warning\", \"notice\", \"info\" or \"debug\", not the number 1\n" },
	{ "log_level = \"inf\";", "1: log_level: unknown value \"inf\", did you mean \"info\"?\n" },
	{ "log_level = \"loud\";",
		"1: log_level: must be \"error\", \"warning\", \"notice\", \"info\" or \"debug\", not the string \"loud\"\n" },
	{ "runtime_dir = \"run\";", "1: runtime_dir: " ABSOLUTE "\"run\"\n" },
	{ "runtime_dir = \"\";", "1: runtime_dir: must not be empty\n" },
	{ "runtime_dir = \"/run/../x\";",
		"1: runtime_dir: must not contain \"..\" as \"/run/../x\" does: write the resulting path\n" },
	{ "runtime_dir = \"${id}\";", "1: runtime_dir: " ABSOLUTE "\"${id}\"\n" },
	{ "\nresource = ();", "2: unknown key \"resource\", did you mean \"resources\"?\n" },
	{ "name = \"x\";",
		"1: unknown key \"name\", which belongs in \"resources = ( { name = ... } )\"\n" },
	{ "zork = 1;",
		"1: unknown key \"zork\", the keys here are: runtime_dir, log_level, host_root, cdi, cdi_dir, device_info_dir, features_dir, kubelet, metrics, dra, cluster, cordon, resources\n" },
	{ "kubelet = ();", "1: kubelet: must be a group { ... }, not a list ( )\n" },
	{ "kubelet = {\nregistration = \"default\"; };",
		"2: kubelet.registration: must be \"socket\" or \"watcher\", not the string \"default\"\n" },
	{ "kubelet = { registration = 1; };",
		"1: kubelet.registration: must be \"socket\" or \"watcher\", not the number 1\n" },
	{ "kubelet = { plugins_registry_dir = \"x\"; };",
		"1: kubelet.plugins_registry_dir: must be an absolute path beginning with \"/\", not \"x\"\n" },
	{ "metrics = { listen = \"localhost:80\"; };",
		"1: metrics.listen: must be an address with a port such as \"127.0.0.1:10970\" or \"[::1]:10970\", or the absolute path of a socket of up to 107 bytes, not \"localhost:80\"\n" },
	{ "metrics = { textfile = \"/x/devplugd.txt\"; };",
		"1: metrics.textfile: must end in \"NAME.prom\", not \"devplugd.txt\"\n" },
	{ "dra = { driver = \"Devices.example\"; };",
		"1: dra.driver: must be a DNS name in lower case, such as \"devices.vendor.example\", not \"Devices.example\"\n" },
	{ "dra = { driver = \"devices.-example\"; };",
		"1: dra.driver: must be a DNS name in lower case, such as \"devices.vendor.example\", not \"devices.-example\"\n" },
	{ "dra = { node = \"a..b\"; };",
		"1: dra.node: must be a DNS name in lower case, such as \"devices.vendor.example\", not \"a..b\"\n" },
	{ "dra = { kubeconfig = \"x\"; };", "1: dra.kubeconfig: " ABSOLUTE "\"x\"\n" },
	{ "cordon = ( { reason = \"x\"; } );", "1: cordon[0].id: is missing\n" },
	{ "cordon = ( { id = \"gpu/x\"; } );",
		"1: cordon[0].id: must be the id of a device, or \"RESOURCE/ID\" such as "
		"\"vendor.example/gpu/gpu-2\", not \"gpu/x\"\n" },
	{ "cordon = \"v.e/gpu/\";",
		"1: cordon.id: must be the id of a device, or \"RESOURCE/ID\" such as "
		"\"vendor.example/gpu/gpu-2\", not \"v.e/gpu/\"\n" },
	{ "kubelet = { device_plugin_dir = \"var\"; };",
		"1: kubelet.device_plugin_dir: " ABSOLUTE "\"var\"\n" },
	{ "kubelet = { device_plugin_dir =\n\"/1234567891234567891234567891234567891234567891234567891234567x\"; };",
		"1: kubelet.device_plugin_dir: is 63 bytes long, the maximum is 62: the path of a socket is limited to 107 bytes, and \"/\" with the name of a socket needs up to 45 of them\n" },
	{ "kubelet = { root_dir = \"/12345678912345678912345678912345678912345678x\"; };",
		"1: kubelet.root_dir: is 46 bytes long, the maximum is 45: the path of a socket is limited to 107 bytes\n" },
	{ "kubelet = { root_dir = \"k0s\"; };", "1: kubelet.root_dir: " ABSOLUTE "\"k0s\"\n" },
	{ "kubelet = { socket_dir = \"/x\"; };",
		"1: kubelet: unknown key \"socket_dir\", the keys here are: root_dir, device_plugin_dir, registration, plugins_registry_dir, pod_resources, pod_resources_socket, pod_resources_interval, pod_logs_dir\n" },
	{ "resources = {};",
		"1: resources: must be a list of groups, ( { ... }, { ... } ), not a group { }\n" },
	{ "resources = ( 5 );", "1: resources[0]: must be a group { ... }, not the number 5\n" },
	{ "resources = ( \"a\" );",
		"1: resources[0]: must be a group { ... }, not the string \"a\"\n" },
	{ "a = 1;\na = 2;", "2: the key \"a\" occurs twice, first in line 1: remove one\n" },
	{ "a = { b = 1; };\nc = { b = 1; d = ( { b = 1; }, { b = 2; } );\n b : 1; };",
		"3: the key \"b\" occurs twice, first in line 2: remove one\n" },
	{ "\nresources = ( { name = \xe2\x80\x9cv.e/x\xe2\x80\x9d; } );",
		"2: \xe2\x80\x9c is not a quote here: strings are between \" and \"\n" },
	{ "a = 'x';", "1: ' is not a quote here: strings are between \" and \"\n" },
	{ "# it's\n{ \"resources\": [] }",
		"2: this is JSON; write \"resources = ( { name = ...; } );\", as in devplugd.conf(5)\n" },
	{ "# of a page\n{ name = \"v.e/x\"; }",
		"2: syntax error: a resource must be in a list: write \"resources = ( { name = ...; } );\"\n" },
	{ "resources:\n  - name: v.e/x\n",
		"2: this is YAML; write \"resources = ( { name = ...; } );\", as in devplugd.conf(5)\n" },
	{ "---\nresources:\n",
		"1: this is YAML; write \"resources = ( { name = ...; } );\", as in devplugd.conf(5)\n" },
	{ "kubelet:\n  registration: watcher\n",
		"1: this is YAML; write \"kubelet = { ... };\" or \"kubelet = ( ... );\", as in devplugd.conf(5)\n" },
	{ "a = 1;\n\n= 2;",
		"3: syntax error here or just before: a \";\", \",\" or quote may be missing\n" },
	{ "a = [ 1, \"x\" ];",
		"1: mismatched element type in array: all in [ ] are numbers, or all are strings; ( ) may hold both\n" },
	{ "a = {\n\n( };", "3: \"}\" cannot close the \"(\" of line 3: a \")\" is missing\n" },
	{ "c = { a = 1, };\na = ( 1,\n # none\n);\nb = ;",
		"2: nothing follows the last \",\" before \")\": remove the comma\n" },
	{ "a = 1; )", "1: \")\" closes a bracket that is not open\n" },
	{ "a = (\n(\n )", "1: the \"(\" opened in this line is never closed\n" },
	{ "\na = \"b;\nc = 1;", "2: the quote opened in this line is never closed\n" },
	{ "a = 1;\n/* b", "2: the comment opened in this line is never closed\n" },
	{ "a = \"x\\x00y\";", "1: a string must not contain the byte 0 (\"\\x00\")\n" },
	{ "(((((((((((((((((((((((((((((((((",
		"1: brackets are nested more than 32 levels deep\n" },
	{ "\n@include \"a\\\\b\"\n",
		"2: @include: the file's name must not contain a backslash or a line end\n" },
	{ ONE("share = { replicas = 4294967297; };"), "3: the number 4294967297 is too large\n" },
	{ "# a comment\rresources = ( );\n",
		"1: a carriage return alone does not end a line: save the file with Unix line ends\n" },
	{ ONE("share = { replicas = 010; };"),
		"3: the number 010 begins with 0: remove the 0, or write 0x010 for a hexadecimal number\n" },
	{ ONE("share = { replicas = -08L; };"),
		"3: the number -08L begins with 0: remove the 0, or write 0x08L for a hexadecimal number\n" },
	{ ONE("share = { replicas = 5.0; };"),
		SAID("share.replicas: must be a whole number, not the number 5.0") },
	{ ONE("share = { replicas = 0x100000000; };"), "3: the number 0x100000000 is too large\n" },
	{ ONE("cdi_spec = { kind = \"v.e/x\"; uid = 4294967293; };"),
		"3: the number 4294967293 is too large without the suffix \"L\"\n" },
	{ ONE("share = { replicas = 99999999999999999999L; };"),
		"3: the number 99999999999999999999L is too large\n" },
	{ ONE("dra = { attributes = ( { name = \"id\"; value = \"x\"; } ); };"),
		SAID("dra.attributes[0].name: must not be \"id\", which devplugd sets for every device: choose another name") },
	{ ONE("dra = { attributes = ( { name = \"a-b\"; value = \"x\"; } ); };"),
		SAID("dra.attributes[0].name: must be a name of at most 32 letters, digits and \"_\", not beginning with a digit, or DOMAIN/NAME with a DNS name of at most 63 bytes in lower case, not \"a-b\"") },
	{ ONE("dra = { attributes = ( { name = \"a\"; type = \"float\"; value = \"1\"; } ); };"),
		SAID("dra.attributes[0].type: must be \"string\", \"int\", \"bool\" or \"version\", not the string \"float\"") },
	{ ONE("dra = { attributes = ( { name = \"a\"; type = \"int\"; value = \"1.5\"; } ); };"),
		SAID("dra.attributes[0].value: is not a whole number of 64 bits: \"1.5\"") },
	{ ONE("dra = { attributes = ( { name = \"a\"; value = \"${ids}\"; } ); };"),
		SAID("dra.attributes[0].value: must not use ${ids}, ${n}, ${info}, ${replica}, ${position}, ${capacity} or ${param:NAME} as \"${ids}\" does: they have a value only while devices are assigned to a container; ${id} is the device's id") },
	{ ONE("dra = { attributes = ( { name = \"a\"; value = \"x\"; }, { name = \"b\"; value = \"x\"; }, { name = \"a\"; value = \"y\"; } ); };"),
		SAID("dra.attributes[2].name: \"a\" is set twice, remove one") },
	{ "dra = { driver = \"d.example\"; };\nresources = (\n{ name = \"v.e/x\"; driver = \"path\"; match = \"/dev/x\"; serve = \"dra\"; dra = { attributes = ( { name = \"d.example/id\"; value = \"x\"; } ); }; } );",
		SAID("dra.attributes: has \"d.example/id\", whose domain is the DRA driver's: write \"id\"") },
	{ "resources = (\n{ driver = \"path\"; match = \"/dev/x\"; } );",
		"2: resources[0]: name: is missing\n" },
	{ "resources = (\n{ name = \"v.e/x\"; match = \"/dev/x\"; } );",
		"2: resources[0] \"v.e/x\": driver: is missing\n" },
	{ "resources = (\n{ name = \"v.e/x\"; driver = \"path\"; } );",
		"2: resources[0] \"v.e/x\": match: is missing\n" },
	{ "resources = (\n{ name = \"v.e/x\"; driver = \"path\"; match = (); } );",
		"2: resources[0] \"v.e/x\": match: must not be empty\n" },
	{ "resources = (\n{ name = \"gpu\"; driver = \"path\"; match = \"/dev/x\"; } );",
		"2: resources[0] \"gpu\": name: \"gpu\" has no \"/\": write DOMAIN/TYPE with a domain that you own, such as \"vendor.example/gpu\"\n" },
	{ "resources = (\n{ name = 5; driver = \"path\"; match = \"/dev/x\"; } );",
		"2: resources[0]: name: must be a string, not the number 5\n" },
	{ "resources = (\n{ name = \"v.e/x\"; driver = \"pth\"; match = \"/dev/x\"; } );",
		"2: resources[0] \"v.e/x\": driver: unknown driver \"pth\", did you mean \"path\"?\n" },
	{ "resources = (\n{ name = \"v.e/x\"; driver = \"path\"; match = { path = \"/dev/x\"; }; } );",
		"2: resources[0] \"v.e/x\": match: must be a list of groups, ( { ... }, { ... } ), not a group { }\n" },
	{ "resources = (\n{ name = \"v.e/x\"; driver = \"path\"; match = ( 5 ); } );",
		"2: resources[0] \"v.e/x\": match[0]: must be a group { ... } or a string, not the number 5\n" },
	{ "resources = (\n{ name = \"v.e/x\"; driver = \"path\"; match = ( { pth = \"/dev/x\"; path = \"/dev/y\"; } ); } );",
		"2: resources[0] \"v.e/x\": match[0]: unknown key \"pth\", did you mean \"path\"?\n" },
	{ ONE("serve = \"dra\";"),
		"2: resources[0] \"v.e/x\": serve: is \"dra\", which needs a driver's name at the top of the file: dra = { driver = \"devices.vendor.example\"; };\n" },
	{ ONE("serve = \"dra\"; registration = \"socket\";"),
		"2: resources[0] \"v.e/x\": registration: is only for serve = \"plugin\", remove it: DRA drivers are found by the kubelet's plugin watcher\n"
		"2: resources[0] \"v.e/x\": serve: is \"dra\", which needs a driver's name at the top of the file: dra = { driver = \"devices.vendor.example\"; };\n" },
	{ ONE("matc = 1;"), SAID("unknown key \"matc\", did you mean \"match\"?") },
	{ ONE("path = \"/dev/y\";"),
		SAID("unknown key \"path\", which belongs in \"match = ( { path = ... } )\"") },
	{ ONE("replicas = 5;"),
		SAID("unknown key \"replicas\", which belongs in \"share = { replicas = ... }\"") },
	{ ONE("preset = \"zork-gpu\";"),
		SAID("preset: unknown preset \"zork-gpu\": \"devplugctl presets\" lists all presets") },
	{ ONE("enabled = 1;"), SAID("enabled: must be true or false, not the number 1") },
	{ ONE("overlap = \"yes\";"),
		SAID("overlap: must be false, true or \"exclusive\", not the string \"yes\"") },
	{ ONE("topology = 1.5;"), SAID("topology: must be true or false, not the number 1.5") },
	{ ONE("prefer = \"nuna\";"),
		SAID("prefer: unknown value \"nuna\", did you mean \"numa\"?") },
	{ ONE("prefer = true;"),
		SAID("prefer: must be \"none\", \"packed\", \"spread\", \"distinct\", \"numa\" or \"links\", not \"true\"") },
	{ ONE("prefer = \"best\";"),
		SAID("prefer: must be \"none\", \"packed\", \"spread\", \"distinct\", \"numa\" or \"links\", not the string \"best\"") },
	{ ONE("registration = \"watch\";"),
		SAID("registration: unknown value \"watch\", did you mean \"watcher\"?") },
	{ ONE("cordon = \"a/b\";"),
		SAID("cordon.id: must be the id of a device of this resource, without \"/\", not \"a/b\"") },
	{ ONE("user = \"a b\";"), SAID("user: must be the name or number of a user, not \"a b\"") },
	{ ONE("exclude = ( { } );"), SAID("exclude[0]: needs \"id\", \"where\" or \"match\"") },
	{ ONE("exclude = \"a/b\";"),
		SAID("exclude[0]: \"a/b\" can never match: ids of devices consist of letters, digits "
		     "and \"._:@+=-\"") },
	{ ONE("exclude = ( { id = \"a\"; match = \"/dev/x\"; } );"),
		SAID("exclude[0]: has \"match\" and \"id\" or \"where\": use two entries") },
	{ ONE("exclude = ( { match = ( { colour = 1; } ); } );"),
		SAID("exclude[0].match[0]: unknown key \"colour\", the keys here are: path, as, permissions, "
		     "optional, type, read_only, limit, paths, join, identity") },
	{ ONE("exclude = ( { where = \"bdf\"; } );"),
		SAID("exclude[0].where: must be \"VARIABLE=PATTERN\", such as "
		     "\"bdf=0000:3b:*\", not \"bdf\"") },
	{ ONE("exclude = ( { where = \"colour=red\"; } );"),
		SAID("exclude[0]: unknown variable \"${colour}\"; \"${id}\" is the device's id, the "
		     "manual lists the others") },
	{ ONE("health = ( { probe = \"pci\"; } );"),
		SAID("health[0].probe: \"pci\" would always fail: devices of driver \"path\" have no "
		     "PCI address; use driver \"pci\"") },
	{ ONE("container = { env = ( \"A=${bdf}\" ); };"),
		SAID("container.env[0]: has \"${bdf}\", but devices of driver \"path\" have no PCI address: "
		     "use driver \"pci\"") },
	{ ONE("exclude = 5;"),
		SAID("exclude: must be a list of groups, ( { ... }, { ... } ), not the number 5") },
	{ ONE("share = 5;"), SAID("share: must be a group { ... }, not the number 5") },
	{ ONE("share = { replicas = 0; };"),
		SAID("share.replicas: must be from 1 to 100000 replicas, not 0") },
	{ ONE("share = { replicas = 100001; };"),
		SAID("share.replicas: must be from 1 to 100000 replicas, not 100001") },
	{ ONE("share = { replicas = -1; };"),
		SAID("share.replicas: must be from 1 to 100000 replicas, not -1") },
	{ ONE("share = { replicas = \"5\"; };"),
		SAID("share.replicas: must be a whole number, not the string \"5\"") },
	{ ONE("share = { replicas = 1.5; };"),
		SAID("share.replicas: must be a whole number, not the number 1.5") },
	{ ONE("share = { max_per_container = -1; };"),
		SAID("share.max_per_container: must be from 0 to 100000 devices, not -1") },
	{ ONE("share = { replica = 5; };"),
		SAID("share: unknown key \"replica\", did you mean \"replicas\"?") },
	{ ONE("container = { nodes = 5; };"),
		SAID("container.nodes: must be a list of groups, ( { ... }, { ... } ), not the number 5") },
	{ ONE("container = { nodes = ( \"dev\" ); };"),
		SAID("container.nodes[0].host: " ABSOLUTE "\"dev\"") },
	{ ONE("container = { nodes = \"?dev\"; };"),
		SAID("container.nodes.host: " ABSOLUTE "\"dev\"") },
	{ ONE("container = { nodes = \"${node}/../sda\"; };"),
		SAID("container.nodes.host: must not contain \"..\" as \"${node}/../sda\" does: write the resulting path") },
	{ ONE("container = { nodes = ( { path = \"/dev/x\"; } ); };"),
		SAID("container.nodes[0].host: is missing") },
	{ ONE("container = { nodes = ( { host = \"/dev/x\"; permissions = \"rx\"; } ); };"),
		SAID("container.nodes[0].permissions: must consist of \"r\" (read), \"w\" (write) and \"m\" (mknod), each at most once, such as \"rw\", not \"rx\"") },
	{ ONE("container = { nodes = ( { host = \"/dev/x\"; permissions = \"rr\"; } ); };"),
		SAID("container.nodes[0].permissions: must consist of \"r\" (read), \"w\" (write) and \"m\" (mknod), each at most once, such as \"rw\", not \"rr\"") },
	{ ONE("container = { nodes = ( { host = \"/dev/x\"; permissions = \"\"; } ); };"),
		SAID("container.nodes[0].permissions: must not be empty") },
	{ ONE("container = { nodes = ( \"/dev/${idx}\" ); };"),
		SAID("container.nodes[0].host: unknown variable \"${idx}\", did you mean \"${id}\"?") },
	{ ONE("container = { mounts = \"/opt\"; };"),
		SAID("container.mounts: must be a list of groups, ( { ... }, { ... } ), not the string \"/opt\"") },
	{ ONE("container = { mounts = ( { host = \"opt\"; } ); };"),
		SAID("container.mounts[0].host: " ABSOLUTE "\"opt\"") },
	{ ONE("container = { env = ( \"A\" ); };"),
		SAID("container.env[0]: must have the form \"NAME=value\", not \"A\"") },
	{ ONE("container = { env = ( \"=x\" ); };"),
		SAID("container.env[0]: must have a name of letters, digits and \"_-.\" before the \"=\", not beginning with a digit, unlike \"=x\"") },
	{ ONE("container = { env = ( \"A B=x\" ); };"),
		SAID("container.env[0]: must have a name of letters, digits and \"_-.\" before the \"=\", not beginning with a digit, unlike \"A B=x\"") },
	{ ONE("container = { env = ( \"A=$HOME\" ); };"),
		SAID("container.env[0]: has a lone \"$\" in \"$HOME\": write \"${variable}\", or \"$$\" for a dollar sign") },
	{ ONE("container = { env = ( \"A=1\", \"A=2\" ); };"),
		SAID("container.env: \"A\" is set twice, remove one") },
	{ ONE("container = { env = { A = \"1\"; }; };"),
		SAID("container.env: must be a list of strings, ( \"...\", \"...\" ), not a group { }") },
	{ ONE("container = { env = ( \"A=\\xff\" ); };"), SAID("container.env[0]: is not UTF-8") },
	{ ONE("container = { env = ( \"A=1\", 2 ); };"),
		SAID("container.env[1]: must be a string, not the number 2") },
	{ ONE("container = { annotations = \"x\"; };"),
		SAID("container.annotations: must have the form \"vendor.example/name=value\", not \"x\"") },
	{ ONE("cdi_spec = { };"), SAID("cdi_spec.kind: is missing") },
	{ ONE("container = { cdi = \"vendor.example/gpu\"; };"),
		SAID("container.cdi: must be a CDI device name, VENDOR/CLASS=DEVICE, such as \"vendor.example/gpu=${id}\", not \"vendor.example/gpu\"") },
	{ ONE("container = { device = 1; };"),
		SAID("container: unknown key \"device\", the keys here are: nodes, mounts, env, annotations, cdi, cdi_dirs") },
	{ ONE("health = { probe = \"exec\"; };"),
		SAID("health: must be a list of groups, ( { ... }, { ... } ), not a group { }") },
	{ ONE("health = ( { interval = 5; } );"), SAID("health[0].probe: is missing") },
	{ ONE("health = ( { probe = \"exe\"; path = \"/x\"; } );"),
		SAID("health[0].probe: unknown value \"exe\", did you mean \"exec\"?") },
	{ ONE("health = ( { probe = \"exec\"; } );"), SAID("health[0].command: is missing") },
	{ ONE("health = ( { probe = \"exec\"; command = \"/x\"; path = \"/x\"; } );"),
		SAID("health[0].path: is only for probe = \"file\" or \"exists\", remove it") },
	{ ONE("health = ( { probe = \"exec\"; command = ( ); } );"),
		SAID("health[0].command: must not be empty") },
	{ ONE("health = ( { probe = \"exec\"; command = \"sh\"; } );"),
		SAID("health[0].command: must begin with the absolute path of a program, not \"sh\"") },
	{ ONE("health = ( { probe = \"exec\"; command = ( \"/x\", \"${ids}\" ); } );"),
		SAID("health[0].command[1]: must not use ${ids}, ${n}, ${info}, ${replica}, "
		     "${position}, ${capacity} or ${param:NAME} as \"${ids}\" does: they have a value only while devices are "
		     "assigned to a container; ${id} is the device's id") },
	{ ONE("health = ( { probe = \"file\"; } );"), SAID("health[0].path: is missing") },
	{ ONE("health = ( { probe = \"file\"; path = \"x\"; } );"),
		SAID("health[0].path: " ABSOLUTE "\"x\"") },
	{ ONE("health = ( { probe = \"file\"; path = \"/x/${n}\"; } );"),
		SAID("health[0].path: must not use ${ids}, ${n}, ${info}, ${replica}, "
		     "${position}, ${capacity} or ${param:NAME} as \"/x/${n}\" does: they have a value only while devices "
		     "are assigned to a container; ${id} is the device's id") },
	{ ONE("health = ( { probe = \"file\"; path = \"/x\"; timeout = 5; } );"),
		SAID("health[0].timeout: is only for probe = \"exec\", remove it") },
	{ ONE("health = ( { probe = \"file\"; path = \"/x\"; interval = 0; } );"),
		SAID("health[0].interval: must be from 0.1 to 86400 seconds, not 0") },
	{ ONE("health = ( { probe = \"file\"; path = \"/x\"; interval = 86401; } );"),
		SAID("health[0].interval: must be from 0.1 to 86400 seconds, not 86401") },
	{ ONE("health = ( { probe = \"file\"; path = \"/x\"; interval = \"5s\"; } );"),
		SAID("health[0].interval: must be a number of seconds, not the string \"5s\"") },
	{ ONE("health = ( { probe = \"file\"; path = \"/x\"; fail_after = 0; } );"),
		SAID("health[0].fail_after: must be from 1 to 1000 results, not 0") },
	{ ONE("health = ( { probe = \"file\"; path = \"/x\"; severity = \"fatal\"; } );"),
		SAID("health[0].severity: must be \"no-new-pods\", \"evict\" or \"notice\", not the string \"fatal\"") },
	{ ONE("health = ( { probe = \"file\"; path = \"/x\"; evict_after = 604801; } );"),
		SAID("health[0].evict_after: must be from 0 to 604800 seconds, not 604801") },
	{ ONE("health = ( { probe = \"exec\"; command = \"/bin/true\"; on_recovery = true; "
	      "severity = \"evict\"; } );"),
		SAID("health[0].severity: cannot be \"evict\" with on_recovery = true: the program "
		     "runs only for devices that no pod has") },
	{ ONE("missing = { on_return = \"notice\"; };"),
		SAID("missing.on_return: must be \"keep\" or \"evict\", not the string \"notice\"") },
	{ ONE("missing = { severity = \"notice\"; };"),
		SAID("missing.severity: must be \"no-new-pods\" or \"evict\", not the string \"notice\"") },
	{ ONE("evict_bare = true;"),
		"2: resources[0] \"v.e/x\": evict_bare: has no effect: no health probe has severity = \"evict\", and neither has `missing`\n" },
	{ ONE("force_after = 60;"),
		"2: resources[0] \"v.e/x\": force_after: has no effect: no health probe has severity = \"evict\", and neither has `missing`\n" },
	{ ONE("health = ( { probe = \"file\"; path = \"/x\"; reason = \"missing\"; } );"),
		SAID("health[0].reason: must not be \"missing\", which devplugd uses itself") },
	{ ONE("health = ( { probe = \"file\"; path = \"/x\"; reason = \"too hot\"; } );"),
		SAID("health[0].reason: must have at most 63 letters, digits, \"-\", \"_\" and "
		     "\".\", with a letter or digit at both ends, such as \"temperature\", not "
		     "\"too hot\"") },
	{ ONE("health = ( { probe = \"exec\"; command = \"/bin/true\"; once = true; "
	      "severity = \"notice\"; } );"),
		SAID("health[0].probe: with once = true cannot have severity = \"notice\": the "
		     "device would be offered before the program has initialised it") },
	{ ONE("health = ( { probe = \"exec\"; command = \"/bin/true\"; on_recovery = true; "
	      "severity = \"notice\"; } );"),
		SAID("health[0].probe: with on_recovery = true cannot have severity = \"notice\": "
		     "the device would be offered before the program has tested it") },
	{ ONE("health = ( { probe = \"exec\"; command = \"/bin/true\"; on_recovery = true; "
	      "recover = \"never\"; } );"),
		SAID("health[0].probe: with on_recovery = true cannot have `recover`: a device "
		     "returns when the program exits 0") },
	{ ONE("health = ( { probe = \"file\"; path = \"/x\"; missing = \"bad\"; } );"),
		SAID("health[0].missing: must be \"unhealthy\" or \"healthy\", not the string \"bad\"") },
	{ ONE("health = ( { probe = \"file\"; path = \"/x\"; recover = \"reboots\"; } );"),
		SAID("health[0].recover: unknown value \"reboots\", did you mean \"reboot\"?") },
	{ ONE("prestart = { timeout = 5; };"), SAID("prestart.command: is missing") },
	{ ONE("prestart = { command = \"scrub\"; };"),
		SAID("prestart.command: must begin with the absolute path of a program, not \"scrub\"") },
	{ ONE("prestart = { command = \"/x\"; timeout = 25.001; };"),
		SAID("prestart.timeout: must be from 0.1 to 25 seconds, not 25.001") },
	{ ONE("prestart = { command = \"/x\"; timeout = 0.05; };"),
		SAID("prestart.timeout: must be from 0.1 to 25 seconds, not 0.05") },
	{ ONE("release = { timeout = 5; };"), SAID("release.command: is missing") },
	{ ONE("release = { command = \"/x\"; timeout = 3601; };"),
		SAID("release.timeout: must be from 0.1 to 3600 seconds, not 3601") },
	{ ONE("release = { command = ( \"/x\", \"${ids}\" ); };"),
		SAID("release.command[1]: must not use ${ids}, ${n}, ${info}, ${replica}, ${position}, ${capacity} or ${param:NAME} as "
		     "\"${ids}\" does: they have a value only while devices are assigned to a container; "
		     "${id} is the device's id") },
};

static void test_broken(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(broken); i++) {
		_cleanup_free_ char *found = NULL;

		write_bytes(main_file, broken[i].text, strlen(broken[i].text));
		found = problems(main_file, -EINVAL);
		if (!streq(found, broken[i].problems))
			fail_msg("%s\nis told: %snot: %s", broken[i].text, found,
				broken[i].problems);
	}
}

/* Common mistakes. A bracket that is not closed is reported instead of them. */
static void test_hints(void **state)
{
#define SEPARATOR "write \",\" between elements, and nothing after the last one\n"
#define SETTING   "\"=\" cannot stand in ( ): settings belong in { }, and strings in quotes\n"
#define UNKNOWN   "syntax error here or just before: a \";\", \",\" or quote may be missing\n"
	static const struct {
		const char *text, *problem;
	} cases[] = {
		{ "resources = (\n{ name = \"v.e/x\"; };\n{ name = \"v.e/y\"; } );",
			"2: \";\" cannot stand in ( ): " SEPARATOR },
		{ "a = [ 1; 2 ];", "1: \";\" cannot stand in [ ]: " SEPARATOR },
		{ "resources = [\n{ name = \"v.e/x\"; } ];",
			"2: \"{\" cannot stand in [ ]: groups need ( ), as in ( { ... }, { ... } )\n" },
		{ ONE("share = ( replicas = 3; );"), "3: " SETTING },
		{ ONE("container = { env = ( A = \"1\" ); };"), "3: " SETTING },
		{ ONE("enabled = yes;"),
			"3: yes is not a value: write true, or \"yes\" for a string\n" },
		{ ONE("enabled: Off"),
			"3: Off is not a value: write false, or \"Off\" for a string\n" },
		{ "a = ( 1; 2 );\nb = ( {\n );",
			"3: \")\" cannot close the \"{\" of line 2: a \"}\" is missing\n" },
		{ "a = ( 1; 2 );\nb = ( {\n",
			"2: the \"{\" opened in this line is never closed\n" },
		{ "a = yes_or_no;", "1: " UNKNOWN },
		{ "match = ( 0000:3b:00.0 );", "1: " UNKNOWN },
		{ "/* a = yes; */ a = ( \"b = yes; c\" ); # ( ; )\n= 1;", "2: " UNKNOWN },
		{ "kubelet = { plugin_dir = \"/x\"; };",
			"1: kubelet: unknown key \"plugin_dir\", did you mean \"device_plugin_dir\"?\n" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_free_ char *found = NULL;

		write_bytes(main_file, cases[i].text, strlen(cases[i].text));
		found = problems(main_file, -EINVAL);
		assert_string_equal(found, cases[i].problem);
	}
}

static void test_unknown_driver(void **state)
{
	static const char text[] =
		"resources = (\n{ name = \"v.e/x\"; driver = \"zork\"; match = \"/dev/x\"; } );";
	_cleanup_free_ char *found = NULL;
	char expected[1024];
	size_t length;

	length = (size_t)snprintf(expected, sizeof(expected),
		"2: resources[0] \"v.e/x\": driver: unknown driver \"zork\", the drivers are: ");
	for (size_t i = 0; drivers[i]; i++)
		length += (size_t)snprintf(expected + length, sizeof(expected) - length, "%s\"%s\"",
			i > 0 ? ", " : "", drivers[i]->name);
	(void)snprintf(expected + length, sizeof(expected) - length, "\n");
	write_bytes(main_file, text, strlen(text));
	found = problems(main_file, -EINVAL);
	assert_string_equal(found, expected);
}

static void test_one_broken_resource(void **state)
{
	static const struct {
		const char *text, *problem;
	} cases[] = {
		{ "name = \"v.e/x\";\ndriver = \"path\";\nmatch = \"/dev/x\";\nzork = 1;",
			"resource \"v.e/x\": unknown key \"zork\", the keys here are: name, preset, driver, "
			"enabled, overlap, topology, prefer, registration, serve, dra, capacity, user, host_root, match, where, exclude, cordon, expect, labels, metadata, share, "
			"container, cdi_spec, health, missing, evict_bare, force_after, allocate, prestart, release, parameters" },
		{ "", "resource: name: is missing" },
		{ "name = ",
			"syntax error here or just before: a \";\", \",\" or quote may be "
			"missing" },
		{ "\n@include \"/\"\n", "@include: no file can be included here" },
		{ "\xff", "contains the byte 0xff, which is not UTF-8" },
		{ "name = \"v.e/x\";\ndriver = \"static\";\nmatch = ( \"a\", \"a\" );",
			"resources[0] \"v.e/x\": match: names \"a\" twice: remove one" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_report_ struct report report = { 0 };
		struct config *config = NULL;

		assert_int_equal(config_load_resource(cases[i].text, &report, &config), -EINVAL);
		assert_null(config);
		assert_true(report.count > 0);
		assert_string_equal(report.entries[0].text, cases[i].problem);
		assert_string_equal(report.entries[0].origin.file, "resource");
	}
}

/* With as many as Kubernetes allows beside those of devplugd, and with one more. Drivers with
 * variables leave room for fewer. */
static void test_many_attributes(void **state)
{
	static const struct {
		const char *match, *problem;
		int count;
	} cases[] = {
		{ "driver = \"path\"; match = \"/dev/x\";", NULL, 24 },
		{ "driver = \"path\"; match = \"/dev/x\";",
			"dra.attributes: has 25 attributes, the maximum is 24: Kubernetes allows 32 for a device, and devplugd itself sets up to 8 for driver \"path\"",
			25 },
		{ "driver = \"usb\"; match = ( { vendor = 0x046d; } );",
			"dra.attributes: has 20 attributes, the maximum is 19: Kubernetes allows 32 for a device, and devplugd itself sets up to 13 for driver \"usb\"",
			20 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_report_ struct report report = { 0 };
		struct config *config = NULL;
		char text[4096];
		int length;

		length = snprintf(text, sizeof(text),
			"name = \"v.e/x\"; %s dra = { attributes = ( ", cases[i].match);
		for (int k = 0; k < cases[i].count; k++)
			length += snprintf(text + length, sizeof(text) - (size_t)length,
				"%s{ name = \"a%d\"; value = \"x\"; }", k > 0 ? ", " : "", k);
		(void)snprintf(text + length, sizeof(text) - (size_t)length, " ); };");
		assert_int_equal(config_load_resource(text, &report, &config),
			cases[i].problem ? -EINVAL : 0);
		assert_int_equal(report.count, cases[i].problem != NULL);
		if (cases[i].problem)
			assert_non_null(strstr(report.entries[0].text, cases[i].problem));
		config_free(config);
	}
}

static void test_many_problems(void **state)
{
	_cleanup_free_ char *found = NULL;
	static const char text[] =
		"log_levle = \"info\";\n"
		"resources = (\n"
		"{ name = \"v.e/a\"; driver = \"path\"; match = \"dev\"; share = { replicas = 0; "
		"}; },\n"
		"{ name = \"v.e/b\"; driver = \"path\"; match = \"/dev/b\"; },\n"
		"{ name = \"v.e/b\"; driver = \"path\"; match = \"/dev/b\"; enabled = false; },\n"
		"{ name = \"v.e/a\"; driver = \"pth\";\n"
		"} );\n";

	write_bytes(main_file, text, strlen(text));
	found = problems(main_file, -EINVAL);
	assert_non_null(
		strstr(found, "1: unknown key \"log_levle\", did you mean \"log_level\"?\n"));
	assert_non_null(strstr(found, "3: resources[0] \"v.e/a\": match.path: " ABSOLUTE));
	assert_non_null(
		strstr(found, "3: resources[0] \"v.e/a\": share.replicas: must be from 1 to"));
	assert_non_null(strstr(found,
		"6: resources[3] \"v.e/a\": driver: unknown driver \"pth\", did you mean \"path\"?\n"));
	assert_non_null(strstr(found, "6: resources[3] \"v.e/a\": match: is missing\n"));
	/* Though another resource is broken, and though this one is not enabled. */
	assert_non_null(strstr(found,
		"5: resources[2] \"v.e/b\": name: already used by "
		"resources[1] at "));
	assert_non_null(strstr(found,
		"6: resources[3] \"v.e/a\": name: already used by "
		"resources[0] at "));
	assert_non_null(strstr(found,
		"5: resources[2] \"v.e/b\": match: names \"/dev/b\", as "
		"resources[1] \"v.e/b\" at "));
}

static void test_names_both_places(void **state)
{
	char expected[1024];
	_cleanup_free_ char *found = NULL;
	static const char text[] =
		"resources = (\n"
		"{ name = \"v.e/a\"; driver = \"path\"; match = \"/dev/a\"; cdi_spec = { kind = \"v.e/k\"; }; },\n"
		"{ name = \"v.e/b\"; driver = \"path\"; match = \"/dev/b\"; overlap = true; cdi_spec = { kind = \"v.e/k\"; }; },\n"
		"{ name = \"v.e/a\"; driver = \"path\"; match = \"/dev/b\"; },\n"
		"{ name = \"v.e-x/a\"; driver = \"path\"; match = \"/dev/c\"; },\n"
		"{ name = \"v.e/x-a\"; driver = \"path\"; match = \"/dev/d\"; }\n"
		");\n";

	write_bytes(main_file, text, strlen(text));
	found = problems(main_file, -EINVAL);
	(void)snprintf(expected, sizeof(expected),
		"4: resources[2] \"v.e/a\": name: already used by resources[0] at %s:2: each resource needs a unique name\n"
		"6: resources[4] \"v.e/x-a\": name: its device-information files would have the "
		"same names as those of \"v.e-x/a\" at %s:5: choose another name\n"
		"3: resources[1] \"v.e/b\": cdi_spec.kind: is \"v.e/k\", the kind of resources[0] \"v.e/a\" "
		"at %s:2: each resource needs a unique kind\n"
		"4: resources[2] \"v.e/a\": match: names \"/dev/b\", as resources[1] \"v.e/b\" at "
		"%s:3 does: remove one, or set overlap = true or \"exclusive\" in both\n",
		main_file, main_file, main_file, main_file);
	assert_string_equal(found, expected);
}

/* Accepted, and named by --check, because each may be as it is meant to be later. */
static void test_warnings(void **state)
{
	static const struct {
		const char *keys, *warning;
	} cases[] = {
		{ "health = ( { probe = \"exec\"; command = \"/no/such\"; } );",
			"health[0].command: cannot run \"/no/such\": No such file or directory" },
		{ "prestart = { command = \"/etc/passwd\"; };",
			"prestart.command: cannot run \"/etc/passwd\": not an executable file" },
		{ "prestart = { command = \"/no/${id}\"; };", NULL },
		{ "user = \"no-such-user\";",
			"user: this host has no user \"no-such-user\", so the process of the resource cannot start" },
		{ "user = \"root\";", NULL },
		{ "container = { mounts = ( { host = \"/a\"; path = \"/m\"; }, { host = \"/m\"; } ); };",
			"container.mounts[1]: uses the container path \"/m\", which container.mounts[0] also uses: a container cannot get both, so set a different path" },
		{ "container = { mounts = ( { host = \"/a\"; path = \"/m/\"; }, { host = \"//m\"; } ); };",
			"container.mounts[1]: uses the container path \"/m\", which container.mounts[0] also uses: a container cannot get both, so set a different path" },
		{ "container = { mounts = ( { host = \"/m\"; read_only = true; }, { host = \"/m\"; } ); };",
			NULL },
		{ "container = { mounts = ( { host = \"/a\"; path = \"/m/${env_name}\"; }, { host = \"/m/V_E_X\"; } ); };",
			"container.mounts[1]: uses the container path \"/m/V_E_X\", which container.mounts[0] also uses: a container cannot get both, so set a different path" },
		{ "container = { mounts = ( { host = \"/a\"; path = \"/m/${id}\"; }, { host = \"/m/${id}\"; } ); };",
			"container.mounts[1]: uses the container path \"/m/${id}\", which container.mounts[0] also uses: a container cannot get both, so set a different path" },
		{ "container = { nodes = ( { host = \"/dev/b\"; path = \"/dev/m\"; }, { host = \"?/dev/c\"; path = \"/dev/m\"; } ); };",
			"container.nodes[1]: uses the container path \"/dev/m\", which container.nodes[0] also uses: a container cannot get both, so set a different path" },
		{ "container = { nodes = ( \"/dev/b\", { host = \"/dev/c\"; path = \"/m\"; } ); mounts = ( { host = \"/m\"; } ); };",
			"container.mounts[0]: uses the container path \"/m\", which container.nodes[1] also uses: a container cannot get both, so set a different path" },
		{ "container = { nodes = ( { host = \"/m\"; path = \"/dev/b\"; } ); mounts = ( { host = \"/m\"; } ); };",
			NULL },
		{ "exclude = ( { match = \"/dev/a[0-9\"; } );", NULL },
	};
	static const struct {
		const char *match, *warning;
	} patterns[] = {
		{ "\"/dev/a[0-9\"",
			"match[0].path: the \"[\" in \"/dev/a[0-9\" is never closed, so it only matches a \"[\"" },
		{ "\"/dev/a[]0-9]\"", NULL },
		{ "\"/dev/[0-9/a]\"",
			"match[0].path: the \"[\" in \"/dev/[0-9/a]\" is never closed, so it only matches a \"[\"" },
		{ "\"/dev/a[9-0]\"",
			"match[0].path: \"[9-0]\" in \"/dev/a[9-0]\" matches no character, so no path matches: write a range as in \"[0-9]\", a class as in \"[[:digit:]]\"" },
		{ "\"/dev/a[[:digits:]]\"",
			"match[0].path: \"[[:digits:]]\" in \"/dev/a[[:digits:]]\" matches no character, so no path matches: write a range as in \"[0-9]\", a class as in \"[[:digit:]]\"" },
		{ "\"/dev/[!9-0][[:digit:]][^]a][x\\\\]]\\\\[9-0]\"", NULL },
		{ "\"/dev/a*\"; container = { mounts = ( { host = \"/srv\"; path = \"/dev/a1\"; } ); }",
			"container.mounts[0]: uses the container path \"/dev/a1\", which match[0] also uses: a container cannot get both, so set a different path" },
		{ "\"/dev/a*\"; container = { mounts = ( { host = \"/dev/a1\"; } ); }",
			"container.mounts[0]: uses the container path \"/dev/a1\", which match[0] also uses: a container cannot get both, so set a different path" },
		{ "\"/dev/a*\"; container = { mounts = ( { host = \"${node}\"; } ); }",
			"container.mounts[0]: uses the container path \"${node}\", which match[0] also uses: a container cannot get both, so set a different path" },
		{ "( { path = \"/dev/a*\"; as = \"/dev/m\"; } ); container = { mounts = ( { host = \"${node}\"; } ); }",
			NULL },
		{ "\"/dev/a*\"; container = { nodes = ( \"/dev/a1\", \"${node}\" ); mounts = ( { host = \"/dev/a/b\"; } ); }",
			NULL },
		{ "( { path = \"/dev/a\"; as = \"/x/\"; }, \"/dev/b\" ); container = { nodes = ( { host = \"/dev/c\"; path = \"/x/a\"; } ); }",
			"container.nodes[0]: uses the container path \"/x/a\", which match[0] also uses: a container cannot get both, so set a different path" },
		{ "( { path = \"/dev/a\"; as = \"/dev/m\"; }, { path = \"/dev/b\"; as = \"/dev/m\"; } )",
			NULL },
		{ "( { paths = ( { path = \"/dev/a\"; as = \"/dev/m\"; }, { path = \"/dev/b\"; as = \"/dev/m\"; } ); } )",
			"match[0]: uses the container path \"/dev/m\", which match[0] also uses: a container cannot get both, so set a different path" },
		{ "\"/run/x.sock\"; container = { mounts = ( { host = \"/run/x.sock\"; } ); }",
			NULL },
		{ "( \"/dev/a\", { paths = ( { path = \"/dev/b\"; }, { path = \"/dev/{a,b}\"; } ); } )",
			"match[1].paths[1].path: \"{\" and \"}\" have no special meaning in the pattern \"/dev/{a,b}\": write an entry of `match` for each, or a pattern with \"*\", \"?\" and \"[ ]\"" },
		{ "\"/dev/(full|zero)\"",
			"match[0].path: \"(\", \"|\" and \")\" have no special meaning in the pattern \"/dev/(full|zero)\": write an entry of `match` for each" },
		{ "\"/dev/a(1)\"", NULL },
		{ "\"/dev/video.*\"",
			"match[0].path: in the pattern \"/dev/video.*\", \"*\" alone stands for any text, so leave out the \".\"" },
		{ "\"/run/x.*\"", NULL },
		{ "\"/dev/video[0-9]+\"",
			"match[0].path: in the pattern \"/dev/video[0-9]+\", \"+\" stands for itself: write \"*\", or a pattern for each length" },
		{ "\"/dev/video0, /dev/video1\"",
			"match[0].path: in the pattern \"/dev/video0, /dev/video1\", it is one path: write an entry of `match` for each" },
		{ "\"/srv/dev/video0\"; host_root = \"/srv\"",
			"match[0].path: \"/srv/dev/video0\" is below host_root, but paths are those of the host: write \"/dev/video0\"" },
		{ "( { vendor = 1002; } ); driver = \"drm\"",
			"match[0].vendor: 1002 is a decimal number: write 0x1002, or 0x03ea if that is the value" },
		{ "( { vendor = ( 0x403, 403 ); product = 6; } ); driver = \"usb\"",
			"match[0].vendor: 403 is a decimal number: write 0x0403, or 0x0193 if that is the value" },
		{ "( { class = 300; } ); driver = \"pci\"",
			"match[0].class: 300 is a decimal number: write 0x0300, or 0x012c if that is the value" },
		{ "( { vendor = 0x1002; } ); driver = \"drm\"", NULL },
		{ "( { vendor = 0x1002; } ); driver = \"drm\"; dra = { attributes = ( { name = \"a\"; value = \"${card}\"; } ); }",
			"dra.attributes[0].value: \"${card}\" may have another value after a reboot, so claims that select by it may get another device: use a value that stays, such as ${id}" },
		{ "( { interface_class = 14; } ); driver = \"usb\"", NULL },
	};
	char text[512];

	for (size_t i = 0; i < ARRAY_SIZE(cases) + ARRAY_SIZE(patterns) + 1; i++) {
		_cleanup_report_ struct report report = { 0 };
		_cleanup_config_ struct config *config = NULL;
		const char *warning;

		if (i < ARRAY_SIZE(cases)) {
			warning = cases[i].warning;
			(void)snprintf(text, sizeof(text), ONE("%s"), cases[i].keys);
		} else if (i < ARRAY_SIZE(cases) + ARRAY_SIZE(patterns)) {
			size_t k = i - ARRAY_SIZE(cases);

			warning = patterns[k].warning;
			(void)snprintf(text, sizeof(text),
				"resources = ( { name = \"v.e/x\"; %s match = %s; } );",
				strstr(patterns[k].match, "driver = ") ? "" : "driver = \"path\";",
				patterns[k].match);
		} else {
			warning = "health[0].probe: \"sysfs\" will always fail: devices of driver "
				  "\"static\" have no directory in /sys; use \"file\" or \"exec\"";
			(void)snprintf(text, sizeof(text),
				"resources = ( { name = \"v.e/x\"; driver = \"static\"; match = \"a\";"
				" health = ( { probe = \"sysfs\"; file = \"x\"; healthy = \"1\"; } ); } );");
		}
		config = load(text);
		assert_int_equal(config_warnings(config, &report), 0);
		assert_int_equal(report.count, warning ? 1 : 0);
		if (warning) {
			assert_string_equal(
				startswith(report.entries[0].text, "resources[0] \"v.e/x\": ")
					?: "",
				warning);
			assert_string_equal(report.entries[0].origin.file, main_file);
		}
	}
}

/* One line for each resource, not for each of its devices. */
static void test_many_conflicts(void **state)
{
	_cleanup_free_ char *found = NULL;
	static const char text[] =
		"resources = (\n{ name = \"v.e/a\"; driver = \"static\"; match = ( \"x\", \"y\", \"z\" ); },\n"
		"{ name = \"v.e/b\"; driver = \"static\"; match = ( \"x\", \"y\", \"z\" ); },\n"
		"{ name = \"v.e/a\"; driver = \"static\"; match = ( { count = 20000; } ); },\n"
		"{ name = \"v.e/a\"; driver = \"static\"; match = ( { count = 20000; } ); } );";

	write_bytes(main_file, text, strlen(text));
	found = problems(main_file, -EINVAL);
	assert_non_null(strstr(found,
		"3: resources[1] \"v.e/b\": match: names \"x\", as resources[0] \"v.e/a\" at "));
	assert_non_null(strstr(found,
		":2 does (and 2 more duplicates): remove one, or set overlap = true or \"exclusive\" in both\n"));
	assert_non_null(strstr(found, "does (and 19999 more duplicates): remove one"));
	assert_int_equal(strlen(found) < 1000, true);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_warnings),
		cmocka_unit_test(test_many_conflicts),
		cmocka_unit_test(test_broken),
		cmocka_unit_test(test_hints),
		cmocka_unit_test(test_unknown_driver),
		cmocka_unit_test(test_one_broken_resource),
		cmocka_unit_test(test_many_attributes),
		cmocka_unit_test(test_many_problems),
		cmocka_unit_test(test_names_both_places),
	};

	return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
