# sge.sh: creates a cell of Grid Engine in /var/lib/gridengine, where the cluster's own folder
# is mounted, and starts its master on the head. Package testbed writes the files in cell/.
#
# With classic spooling all state is in files, so most can be written before the master starts.
set -eu
programs=/usr/lib/gridengine
share=/usr/share/gridengine
root=/var/lib/gridengine
export SGE_ROOT=$root SGE_CELL=default
cd $root

for dir in bin lib utilbin; do
	mkdir -p $dir
	ln -s $programs "$dir/$($share/util/arch)"
done
ln -s $share/util util
mkdir -p spool/qmaster spool/execd

# Defaults come from the Debian package.
sed -e 's/^min_uid.*/min_uid 0/' -e 's/^min_gid.*/min_gid 0/' -e 's/^mailer.*/mailer \/bin\/true/' \
	-e "s|^execd_spool_dir.*|execd_spool_dir $root/spool/execd|" \
	-e 's/^load_report_time.*/load_report_time 00:00:02/' \
	-e 's/^reporting_params.*/reporting_params accounting=true reporting=false flush_time=00:00:01 joblog=false sharelog=00:00:00 accounting_flush_time=00:00:00/' \
	$share/default-configuration >cell/configuration
sed -e 's/^schedule_interval.*/schedule_interval 0:0:1/' -e 's/^flush_\(submit\|finish\)_sec.*/flush_\1_sec 1/' \
	-e 's/^job_load_adjustments.*/job_load_adjustments NONE/' -e 's/^load_adjustment_decay_time.*/load_adjustment_decay_time 0:0:0/' \
	$share/util/install_modules/inst_schedd_normal.conf >cell/scheduler
sed -e 's/^allocation_rule.*/allocation_rule $round_robin/' $share/util/resources/pe/mpi >cell/pes/mpi
sed -e 's/^pe_name.*/pe_name loose/' -e 's/^control_slaves.*/control_slaves FALSE/' cell/pes/mpi >cell/pes/loose

while read -r words; do
	# shellcheck disable=SC2086
	$programs/$words >>cell/log 2>&1 || {
		echo "$words:" >&2
		cat cell/log >&2
		exit 1
	}
done <<END
spoolinit classic libspoolc $root/default/common;$root/spool/qmaster init
spooldefaults configuration $root/cell/configuration
spooldefaults complexes $share/util/resources/centry
spooldefaults usersets $share/util/resources/usersets
spooldefaults managers root
spooldefaults pes $root/cell/pes
spooldefaults adminhosts $root/cell/hosts
spooldefaults submithosts $root/cell/hosts
spooldefaults exechosts $root/cell/exechosts
END

exec $programs/sge_qmaster >/dev/null
