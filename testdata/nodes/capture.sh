#!/bin/sh
# Writes the files of this machine that a probe reads as one small text, for tests:
#
#     testdata/nodes/capture.sh > testdata/nodes/NAME.txt
#
# An argument is a folder to take for "/", such as an unpacked capture of hwloc's tests.
# Old kernels and captures have masks in place of some lists; they are turned into lists.
#
# A line is a path and its content. In a path with "cpu*" the star stands for each CPU of
# the list between the two:
#
#     sys/devices/system/cpu/cpu*/topology/physical_package_id 0-7,16-23 0
set -eu
cd "${1:-/}"

# say PATH tells a file of one line, if there is one.
say() {
	line=$(cat "$1" 2>/dev/null) || return 0
	if [ -n "$line" ]; then printf '%s %s\n' "$1" "$line"; fi
}

# list NAME MASK tells a list, or else the mask that says the same.
list() {
	if [ -r "$1" ]; then
		say "$1"
	else
		say "$2" | sed "s|^[^ ]* |$1 mask:|"
	fi
}

# numbers PREFIX NAME finds the folders PREFIX<number> that have a file NAME.
numbers() {
	for entry in "$1"[0-9]*; do
		if [ -e "$entry/$2" ]; then printf '%s,' "${entry#"$1"}"; fi
	done
}

files() {
	cpus=sys/devices/system/cpu nodes=sys/devices/system/node
	say $cpus/online | grep . || echo "$cpus/online $(numbers $cpus/cpu topology)"
	for cpu in $cpus/cpu[0-9]*; do
		list "$cpu/topology/thread_siblings_list" "$cpu/topology/thread_siblings"
		list "$cpu/topology/core_siblings_list" "$cpu/topology/core_siblings"
		say "$cpu/topology/physical_package_id"
		say "$cpu/cpu_capacity"
		for cache in "$cpu"/cache/index*; do
			level=$(cat "$cache/level" 2>/dev/null) || continue
			say "$cache/level"
			[ "$level" -gt 1 ] || continue # nobody asks who shares an L1
			say "$cache/type"
			list "$cache/shared_cpu_list" "$cache/shared_cpu_map"
		done
	done
	say $nodes/online | grep . || echo "$nodes/online $(numbers $nodes/node cpumap)"
	for node in $nodes/node[0-9]*; do
		list "$node/cpulist" "$node/cpumap"
	done
	for kind in core atom lowpower; do
		say sys/devices/cpu_$kind/cpus
	done
	for driver in nvidia amdgpu i915 xe; do
		for gpu in sys/bus/pci/drivers/$driver/*:*:*; do
			say "$gpu/class"
			say "$gpu/numa_node"
			say "$gpu/mem_info_vram_total"
			for part in "$gpu"/drm/*/dev "$gpu"/drm/card*/gt/gt*/id "$gpu"/tile*/gt*/id; do
				say "$part"
			done
			told=proc/driver/nvidia/gpus/${gpu##*/}/information
			grep -s -E '^(Model|GPU UUID|Device Minor):' "$told" | sed "s|^|$told |"
		done
	done
	for node in sys/class/kfd/kfd/topology/nodes/*/properties; do
		grep -s -E '^(simd_count|location_id|domain|drm_render_minor|unique_id) ' "$node" | sed "s|^|$node |"
	done
	say proc/sys/kernel/osrelease
	say proc/loadavg
	grep -s '^Cpus_allowed_list' proc/self/status | sed 's|^|proc/self/status |'
	grep -s -E '^Mem(Total|Available)' proc/meminfo | sed 's|^|proc/meminfo |'
}

files | awk '
# unmask turns "0000000f,00000000" into "32,33,34,35".
function unmask(mask,    digits, i, bit, value, cpu, out) {
	gsub(/,/, "", mask)
	digits = length(mask)
	for (i = digits; i > 0; i--) {
		value = index("0123456789abcdef", tolower(substr(mask, i, 1))) - 1
		for (bit = 0; bit < 4; bit++) {
			if (value % 2 == 1) out = out "," (digits - i) * 4 + bit
			value = int(value / 2)
		}
	}
	return substr(out, 2)
}

# fold turns "0,1,2,8" into "0-2,8". Numbers that are not in order are sorted.
function fold(list,    n, parts, i, k, most, there, out) {
	n = split(list, parts, ",")
	for (i = 1; i <= n; i++) {
		if (parts[i] == "") continue
		there[parts[i] + 0] = 1
		if (parts[i] + 0 > most) most = parts[i] + 0
	}
	for (i = 0; i <= most; i++) {
		if (!(i in there)) continue
		for (k = i; (k + 1) in there; k++) ;
		out = out "," i (k > i ? "-" k : "")
		i = k
	}
	return substr(out, 2)
}

{
	path = $1
	content = substr($0, length(path) + 2)
	if (content ~ /^mask:/) content = fold(unmask(substr(content, 6)))
	if (content ~ /^[0-9,]+$/ && path ~ /online$/) content = fold(content)
	cpu = ""
	if (match(path, /\/cpu[0-9]+\//)) {
		cpu = substr(path, RSTART + 4, RLENGTH - 5)
		path = substr(path, 1, RSTART + 3) "*" substr(path, RSTART + RLENGTH - 1)
	}
	key = path SUBSEP content
	if (!(key in cpus)) { order[++count] = key; paths[key] = path; contents[key] = content }
	cpus[key] = cpus[key] "," cpu
}

END {
	for (i = 1; i <= count; i++) {
		key = order[i]
		print paths[key], (paths[key] ~ /\*/ ? fold(cpus[key]) " " : "") contents[key]
	}
}'
