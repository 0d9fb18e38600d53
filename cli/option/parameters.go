package option

import (
	"cmp"
	"errors"
	"slices"
	"strconv"
	"strings"

	"remshell/pin"
)

// This file translates parameters of other launchers to options. Those of Open MPI (mca in the table) are given as
// variables OMPI_MCA_KEY and PRTE_MCA_KEY, or as --mca KEY VALUE and --prtemca KEY VALUE. Those of Intel MPI are the
// variables I_MPI_PIN_*. A parameter without an equivalent is reported if it would change where or how ranks run.

// errNoEquivalent is returned for a value of an Open MPI parameter that no option of mpiexec can express.
var errNoEquivalent = errors.New("no equivalent")

// parameterPrefixes are the prefixes of environment variables that set parameters of Open MPI's launchers,
// ORTE and PRRTE.
var parameterPrefixes = []string{"OMPI_MCA_", "PRTE_MCA_"}

// parameterKey returns the name of Open MPI's parameter that an environment variable sets, or "" if it sets none.
func parameterKey(variable string) string {
	for _, prefix := range parameterPrefixes {
		if key, is := strings.CutPrefix(variable, prefix); is {
			return key
		}
	}
	return ""
}

// optionForParameter returns the option with the same meaning as a parameter of Open MPI's launcher.
func (t *Table) optionForParameter(key string) (namedOption, bool) {
	for _, o := range t.options {
		if slices.Contains(o.mcaParameters, key) {
			return namedOption{Option: o, Spelling: Spelling{Dashed: o.Dashed}}, true
		}
	}
	return namedOption{}, false
}

// componentLaunchers maps Open MPI's components that start daemons (plm) to values of -launcher. Components
// for batch systems are not in this map; launcherForComponent finds them.
var componentLaunchers = map[string]string{"rsh": "ssh", "ssh": "ssh", "isolated": "fork"}

// parameterValue converts the value of an Open MPI parameter to the value of the corresponding option of
// mpiexec. It returns "" if the parameter has no effect.
func parameterValue(key, value string) (string, error) {
	if word, is := parameterWords[key]; is {
		if on, _ := parseSwitch(value); on {
			return word, nil
		}
		return "", nil
	}
	switch key {
	case "plm_rsh_agent", "plm_ssh_agent": // programs separated by colons
		first, _, _ := strings.Cut(value, ":")
		return strings.TrimSpace(first), nil
	case "plm":
		if word := cmp.Or(componentLaunchers[value], launcherForComponent(value)); word != "" {
			return word, nil
		}
		return "", errNoEquivalent
	case "rmaps": // the mapping component
		switch value {
		case "seq":
			return value, nil
		case "round_robin":
			return "", nil
		}
		return "", errNoEquivalent
	case "orte_abort_on_non_zero_status", "prte_abort_on_non_zero_status":
		if on, known := parseSwitch(value); known && !on {
			return "0", nil
		}
		return "1", nil
	case "orte_set_default_slots", "prte_set_default_slots": // only a number has an equivalent, not a kind of object
		if _, err := strconv.Atoi(value); err != nil {
			return "", errNoEquivalent
		}
	}
	return value, nil
}

// parameterWords maps each boolean parameter of Open MPI to the value of its equivalent option that means true.
var parameterWords = map[string]string{
	"rmaps_base_oversubscribe": "share", "rmaps_base_no_oversubscribe": "no", "orte_timestamp_output": "timestamp", "prte_timestamp_output": "timestamp", "orte_tag_output": "tag", "prte_tag_output": "tag",
	"rmaps_base_display_map": "map", "ras_base_display_alloc": "allocation", "orte_enable_recovery": "yes", "prte_enable_recovery": "yes",
}

// affectsRanks reports whether a parameter without an equivalent option would change where or how ranks run.
// Parameters about Open MPI's daemons do not.
func affectsRanks(key string) bool {
	hasOne := func(has func(s, part string) bool, parts ...string) bool {
		return slices.ContainsFunc(parts, func(part string) bool { return has(key, part) })
	}
	switch {
	case hasOne(strings.HasSuffix, "_verbose", "_tree_spawn", "_priority", "_delay", "_pass_libpath", "_pass_environ_mca_params", "_debug"):
		return false
	case slices.Contains([]string{"rmaps", "ras", "orte_max_restarts", "prte_max_restarts", "orte_xml_output", "prte_xml_output"}, key):
		return true
	}
	return key == "plm" || hasOne(strings.HasPrefix, "rmaps_", "ras_", "plm_", "hwloc_base_", "hwloc_default_")
}

// translateParameter replaces an --mca option that sets a parameter of Open MPI's launcher by mpiexec's option with the
// same meaning. It returns any other option unchanged. If ok is false, the caller must drop the option, because it has
// no equivalent or no effect. note is a warning, or empty.
func (t *Table) translateParameter(g GivenOption) (translated GivenOption, ok bool, note string) {
	if g.Name != "mca" {
		return g, true, ""
	}
	key, value, _ := strings.Cut(g.Value, "=")
	ofLauncher := strings.HasSuffix(g.Spelled, "prtemca")
	m, known := t.optionForParameter(key)
	if !known {
		if affectsRanks(key) {
			note = noEquivalent([]string{g.Spelled + " " + key + " " + value})
		}
		return g, note == "" && !ofLauncher, note
	}
	text, err := parameterValue(key, value)
	if err != nil {
		return g, false, noEquivalent([]string{g.Spelled + " " + key + " " + value})
	}
	on := text != ""
	if on && m.impliedValue != "" {
		text, on = m.switchValue(text)
	}
	translated = GivenOption{Option: m.Option, Spelled: g.Spelled + " " + key, Value: text, AppNumber: g.AppNumber, Position: g.Position, precedence: g.precedence, source: g.source}
	return translated, on, ""
}

// WithoutRemoteShell returns the job options without Open MPI's plm_rsh_agent and plm_rsh_args. These apply
// to ssh only, and not to a batch system's launcher.
func (l Line) WithoutRemoteShell() JobOptions {
	j := l.Job
	ofShell := func(name string) bool {
		g, given := l.Origin(name)
		return given && (strings.Contains(g.Spelled, "plm_rsh_") || strings.Contains(g.Spelled, "plm_ssh_"))
	}
	if ofShell("launcher-exec") {
		j.LauncherExec = nil
	}
	if ofShell("launcher-args") {
		j.LauncherArgs = nil
	}
	return j
}

// noEquivalent returns a warning that mpiexec ignores some settings of another launcher, because it has no option with
// the same meaning. Each element of assignments is the name and value of such a setting.
func noEquivalent(assignments []string) string {
	return "ignored: " + strings.Join(assignments, ", ") + " (mpiexec has no such option)"
}

// pinWords maps Intel MPI's names of pinning domains to values of --bind-to.
var pinWords = map[string]string{
	"core": "core", "sock": "socket", "socket": "socket", "numa": "numa", "node": "machine",
	"cache": "l3cache", "cache1": "core", "cache2": "l2cache", "cache3": "l3cache",
}

// pinValue converts the value of an I_MPI_PIN* variable to a value of the corresponding option of mpiexec. It
// returns "" if the variable has no effect.
func pinValue(name, value string) (string, error) {
	word := strings.ToLower(value)
	switch name {
	case "I_MPI_PIN":
		if on, known := parseSwitch(value); known && !on {
			return "no", nil
		}
		return "", nil // it is the default
	case "I_MPI_PIN_DOMAIN":
		if n, err := strconv.Atoi(word); err == nil && n > 0 { // a number of logical CPUs
			return "hwthread:" + word, nil
		}
		if word == "omp" { // OMP_NUM_THREADS CPUs, which is our default
			return "", nil
		}
		if ours, known := pinWords[word]; known {
			return ours, nil
		}
	case "I_MPI_PIN_PROCESSOR_LIST":
		switch word {
		case "allcores":
			return "core", nil
		case "all":
			return "hwthread", nil
		}
		var each []string // one CPU for each rank, in order
		for part := range strings.SplitSeq(value, ",") {
			cpus, err := pin.ParseCPUs(part)
			if err != nil || len(cpus) == 0 {
				return "", errNoEquivalent
			}
			for _, cpu := range cpus {
				each = append(each, strconv.Itoa(cpu))
			}
		}
		return "user:" + strings.Join(each, ","), nil
	}
	return "", errNoEquivalent
}
