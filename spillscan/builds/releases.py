"""CUDA releases: what their drivers take, and what brings their toolkits."""

ISA_OF_RELEASE = {
    **{f"10.{minor}": f"6.{minor + 3}" for minor in range(3)},
    **{f"11.{minor}": f"7.{minor}" for minor in range(9)},
    **{f"12.{minor}": f"8.{minor if minor < 6 else minor - 1}" for minor in range(10)},
    **{f"13.{minor}": f"9.{minor}" for minor in range(6)},
}
"""The newest PTX ISA version that a driver of a CUDA release takes: "PTX Release History" of the PTX ISA's release
notes up to 13.1, and what ptxas of 11.8, 12.0, 12.4, 12.6, 12.8, 12.9, 13.0, 13.2 and 13.5 says its own is."""

IMAGE_OF_RELEASE = {
    **{
        version.rpartition(".")[0]: f"nvidia/cuda:{version}-devel-ubuntu22.04"
        for version in ("11.8.0", "12.0.1", "12.1.1", "12.2.2", "12.3.2", "12.4.1", "12.5.1")
    },
    **{
        version.rpartition(".")[0]: f"nvidia/cuda:{version}-devel-ubuntu24.04"
        for version in ("12.6.3", "12.8.1", "12.9.1", "13.0.2", "13.1.1", "13.4.2")
    },
}
"""The image with each release's toolkit, as public Dockerfiles name them."""
