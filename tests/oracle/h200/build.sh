#!/bin/sh
# The programs of this folder at each register cap, with what ptxas says of each: build.sh FOLDER (nvcc on PATH).
set -eu
here=$(dirname "$0")
to=${1:?usage: build.sh FOLDER}
mkdir -p "$to"
for program in gemm stencil; do
    for cap in 32 40 48 64 80 96 128 168 255; do
        nvcc -O3 -std=c++17 -arch=sm_90 -cudart static -Xptxas -v -maxrregcount=$cap \
            -o "$to/$program-$cap" "$here/$program.cu" 2>"$to/$program-$cap.log"
        strip "$to/$program-$cap"
    done
done
nvcc -O3 -std=c++17 -arch=sm_90 -cudart static -extended-lambda -Xptxas -v -o "$to/launches" "$here/launches.cu" 2>"$to/launches.log"
strip "$to/launches"
