#!/bin/sh
# On a machine with an H200: times all programs at all caps, and profiles them where ncu is there.
# run_h200.sh FOLDER_OF_BINARIES FOLDER_FOR_RESULTS; one archive comes out, and what is worth a look at once.
# Leaves the card's clocks alone.
set -u
here=$(cd "$(dirname "$0")" && pwd)
bin=$(cd "$1" && pwd)
out=$2
mkdir -p "$out/h200"
to=$(cd "$out/h200" && pwd)
root=$(cd "$here/../../.." && pwd)

nvidia-smi --query-gpu=name,driver_version,clocks.sm,clocks.mem,clocks.max.sm,temperature.gpu,power.draw \
    --format=csv >"$to/machine.csv" 2>&1
PYTHONPATH=$root timeout 400 python3 "$here/measure.py" "$bin" "$to/times.csv" "${RUNS:-5}" 2>"$to/measure.err"
echo "measure.py: exit status $?"
nvidia-smi --query-gpu=clocks.sm,clocks.mem,temperature.gpu,power.draw --format=csv,noheader >>"$to/machine.csv" 2>&1
cp "$to/times.csv" "$to/machine.csv" "$out"
cut -d, -f1-12 "$to/times.csv"
tail -3 "$to/measure.err"

ncu=$(command -v ncu || ls /usr/local/cuda*/bin/ncu /opt/nvidia/nsight-compute/*/ncu 2>/dev/null | tail -1)
if [ -n "$ncu" ]; then
    "$ncu" --version >"$to/ncu-version.txt" 2>&1
    cd "$bin" || exit 1
    quiet="--clock-control none"
    local=smsp__inst_executed_op_local_ld.sum,smsp__inst_executed_op_local_st.sum
    local=$local,smsp__sass_inst_executed_op_local_ld.sum,smsp__sass_inst_executed_op_local_st.sum
    local=$local,l1tex__t_bytes_pipe_lsu_mem_local_op_ld.sum,l1tex__t_bytes_pipe_lsu_mem_local_op_st.sum
    local=$local,l1tex__t_bytes_pipe_lsu_mem_global_op_ld.sum,l1tex__t_bytes_pipe_lsu_mem_global_op_st.sum
    local=$local,lts__t_sectors_srcunit_tex.sum,lts__t_sectors_op_read.sum,smsp__inst_executed.sum
    local=$local,sm__warps_active.avg.pct_of_peak_sustained_active,launch__registers_per_thread
    # The forms of one small program: live with its output in between, from a report, by sections, long, to a log file.
    timeout 120 "$ncu" $quiet --set full -f -o "$to/launches" ./launches >"$to/launches.out" 2>&1
    timeout 60 "$ncu" -i "$to/launches.ncu-rep" --csv --page raw >"$to/report-raw.csv" 2>&1
    timeout 60 "$ncu" -i "$to/launches.ncu-rep" --csv --page raw --print-units base >"$to/report-raw-base.csv" 2>&1
    timeout 60 "$ncu" -i "$to/launches.ncu-rep" --csv --page details >"$to/report-details.csv" 2>&1
    timeout 60 "$ncu" -i "$to/launches.ncu-rep" --csv --page details --print-metric-name name --print-units base >"$to/report-details-names.csv" 2>&1
    for base in function mangled; do
        timeout 60 "$ncu" -i "$to/launches.ncu-rep" --csv --page raw --print-kernel-base $base >"$to/report-raw-$base.csv" 2>&1
    done
    timeout 60 "$ncu" $quiet --csv --page raw ./launches >"$to/live-raw.csv" 2>&1
    timeout 60 "$ncu" $quiet --csv --metrics $local ./launches >"$to/live-metrics.csv" 2>&1
    timeout 60 "$ncu" $quiet --csv --set full --log-file "$to/log-file.csv" ./launches >/dev/null 2>&1
    timeout 60 "$ncu" $quiet --csv --metrics $local --target-processes all sh -c './launches; ./launches' >"$to/two-processes.csv" 2>&1
    # The sweep's programs, one launch each, everything.
    for cap in 32 64 96 128 255; do
        for program in gemm:2048 stencil:256; do
            name=${program%:*}-$cap
            timeout 60 "$ncu" $quiet --set full --metrics $local -s 1 -c 1 --csv --page raw --print-units base \
                "./$name" "${program#*:}" 1 >"$to/$name.csv" 2>&1
        done
    done
    rm -f "$to"/*.ncu-rep
    wc -l "$to"/*.csv
    grep -l '^==ERROR==' "$to"/*.csv "$to"/*.out
fi
tar -C "$out" -czf "$out/h200.tar.gz" h200
rm -rf "$out/h200"
ls -l "$out"
