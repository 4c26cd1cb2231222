package filesystem

import (
	"maps"
	"slices"
	"strings"

	"github.com/purser-csi/purser/internal/driver/fault"
)

// anyValue stands for an option that may have every value, or none.
var anyValue []string

// commonOptions are the mount options of every type, beside those of flagOf: the labels of SELinux
// are what a kubelet adds.
var commonOptions = map[string][]string{
	"context": anyValue, "fscontext": anyValue, "defcontext": anyValue, "rootcontext": anyValue,
}

// optionsOf are the mount options that a user may choose for one type. An option that is not here
// can reach outside the volume (journal_path, logdev, rtdev and device name another device), stop
// the machine (errors=panic), or make the mount show something else than the volume (subvol, sb).
var optionsOf = map[Type]map[string][]string{
	Ext4: {
		"errors": {"continue", "remount-ro"}, "data": {"journal", "ordered", "writeback"},
		"acl": anyValue, "auto_da_alloc": anyValue, "barrier": anyValue, "bsddf": anyValue, "bsdgroups": anyValue,
		"commit": anyValue, "delalloc": anyValue, "dioread_lock": anyValue, "dioread_nolock": anyValue,
		"discard": anyValue, "grpid": anyValue, "grpquota": anyValue, "i_version": anyValue, "init_itable": anyValue,
		"inode_readahead_blks": anyValue, "journal_async_commit": anyValue, "journal_checksum": anyValue,
		"journal_ioprio": anyValue, "max_batch_time": anyValue, "max_dir_size_kb": anyValue,
		"min_batch_time": anyValue, "minixdf": anyValue, "noacl": anyValue, "noauto_da_alloc": anyValue,
		"nobarrier": anyValue, "nodelalloc": anyValue, "nodiscard": anyValue, "nogrpid": anyValue,
		"noinit_itable": anyValue, "nojournal_checksum": anyValue, "noquota": anyValue, "nouser_xattr": anyValue,
		"prjquota": anyValue, "quota": anyValue, "resgid": anyValue, "resuid": anyValue, "stripe": anyValue,
		"sysvgroups": anyValue, "user_xattr": anyValue, "usrquota": anyValue,
	},
	XFS: {
		"allocsize": anyValue, "attr2": anyValue, "bsdgroups": anyValue, "discard": anyValue, "filestreams": anyValue,
		"gqnoenforce": anyValue, "gquota": anyValue, "grpid": anyValue, "grpquota": anyValue, "ikeep": anyValue,
		"inode32": anyValue, "inode64": anyValue, "largeio": anyValue, "logbsize": anyValue, "logbufs": anyValue,
		"noalign": anyValue, "noattr2": anyValue, "nodiscard": anyValue, "nogrpid": anyValue, "noikeep": anyValue,
		"nolargeio": anyValue, "noquota": anyValue, "nouuid": anyValue, "pqnoenforce": anyValue, "pquota": anyValue,
		"prjquota": anyValue, "qnoenforce": anyValue, "quota": anyValue, "sunit": anyValue, "swalloc": anyValue,
		"swidth": anyValue, "sysvgroups": anyValue, "uqnoenforce": anyValue, "uquota": anyValue, "usrquota": anyValue,
		"wsync": anyValue,
	},
	Btrfs: {
		"acl": anyValue, "autodefrag": anyValue, "barrier": anyValue, "commit": anyValue, "compress": anyValue,
		"compress-force": anyValue, "datacow": anyValue, "datasum": anyValue, "discard": anyValue,
		"flushoncommit": anyValue, "max_inline": anyValue, "metadata_ratio": anyValue, "noacl": anyValue,
		"noautodefrag": anyValue, "nobarrier": anyValue, "nodatacow": anyValue, "nodatasum": anyValue,
		"nodiscard": anyValue, "noflushoncommit": anyValue, "nossd": anyValue, "nossd_spread": anyValue,
		"notreelog": anyValue, "space_cache": anyValue, "ssd": anyValue, "ssd_spread": anyValue,
		"thread_pool": anyValue, "treelog": anyValue, "user_subvol_rm_allowed": anyValue,
	},
}

// CheckOptions refuses mount options that a filesystem of this type may not have; for Nothing those
// that none may have. The error has the name of the option and what is allowed, and never its
// value, which may be sensitive.
func CheckOptions(t Type, options []string) error {
	for _, option := range split(options) {
		name, value, _ := strings.Cut(option, "=")
		if _, isFlag := flagOf[option]; isFlag {
			continue
		}
		values, known := valuesOf(t, name)
		_, isLabel := commonOptions[name]
		switch {
		case !known:
			return fault.Invalid.Errorf(
				"mount.mount_flags: option %.128q is not allowed%s; remove it from mountOptions of the storage "+
					"class; allowed are %s",
				name, on(t), strings.Join(allowed(t), ", "),
			)
		case strings.Contains(value, `"`) && (!isLabel || !isQuoted(value)):
			return fault.Invalid.Errorf(
				"mount.mount_flags: option %q has a misplaced quote; remove it from mountOptions of the storage "+
					"class; allowed are quotes around the whole value of %s",
				name, strings.Join(slices.Sorted(maps.Keys(commonOptions)), ", "),
			)
		case values != nil && !slices.Contains(values, value):
			return fault.Invalid.Errorf(
				"mount.mount_flags: this value of option %q is not allowed%s; allowed are %s",
				name, on(t), strings.Join(values, ", "),
			)
		}
	}
	return nil
}

// isQuoted reports whether the value has one quote at each end and none between them. The kernel
// takes quotes into account only for the labels of SELinux, and splits other options at each comma.
func isQuoted(value string) bool {
	return len(value) > 1 && strings.Count(value, `"`) == 2 && value[0] == '"' && value[len(value)-1] == '"'
}

func on(t Type) string {
	if t == Nothing {
		return ""
	}
	return " on " + string(t)
}

// valuesOf returns the values that an option may have; nil for any.
func valuesOf(t Type, name string) (values []string, known bool) {
	for _, options := range tablesOf(t) {
		if values, known = options[name]; known {
			return values, true
		}
	}
	return nil, false
}

func tablesOf(t Type) []map[string][]string {
	if t != Nothing {
		return []map[string][]string{commonOptions, optionsOf[t]}
	}
	tables := []map[string][]string{commonOptions}
	for _, t := range Types {
		tables = append(tables, optionsOf[t])
	}
	return tables
}

func allowed(t Type) []string {
	names := slices.Collect(maps.Keys(flagOf))
	for _, options := range tablesOf(t) {
		names = slices.AppendSeq(names, maps.Keys(options))
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// split divides options at commas, but not inside the quotes of a label of SELinux.
func split(options []string) []string {
	var all []string
	for _, option := range options {
		quoted := false
		all = append(all, strings.FieldsFunc(option, func(r rune) bool {
			if r == '"' {
				quoted = !quoted
			}
			return r == ',' && !quoted
		})...)
	}
	return all
}
