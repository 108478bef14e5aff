"""Oracle's SDK against a fake in which Kiln has made a cluster: python3 scenario.py HOSTS, the inventory that Kiln prints.
Reads that cluster back, makes an instance of its own and one with the tags of a node, and tries what has to be refused. Ends with an error at the first
thing that is not as expected."""

import json
import os
import sys

os.environ["OCI_PYTHON_SDK_NO_SERVICE_IMPORTS"] = "1"
import oci  # noqa: E402
from oci.core import BlockstorageClient, ComputeClient, VirtualNetworkClient, models  # noqa: E402
from oci.file_storage import FileStorageClient  # noqa: E402
from oci.file_storage import models as files  # noqa: E402
from oci.identity import IdentityClient  # noqa: E402
from oci.limits import LimitsClient  # noqa: E402
from oci.object_storage import ObjectStorageClient  # noqa: E402
from oci.work_requests import WorkRequestClient  # noqa: E402

URL, COMPARTMENT = os.environ["FAKE_URL"], os.environ["FAKE_COMPARTMENT"]
CONFIG = oci.config.from_file(os.environ["OCI_CLI_CONFIG_FILE"])


def client(kind):
    return kind(CONFIG, service_endpoint=URL, retry_strategy=oci.retry.NoneRetryStrategy())


compute, networks, volumes = client(ComputeClient), client(VirtualNetworkClient), client(BlockstorageClient)


def everything(call, *arguments, **options):
    return oci.pagination.list_call_get_all_results(call, *arguments, **options).data


def refused(status, code, call, *arguments, **options):
    try:
        call(*arguments, **options)
    except oci.exceptions.ServiceError as error:
        assert (error.status, error.code) == (status, code), error
        assert error.request_id, error
        return
    raise AssertionError("%s was not refused: %s" % (call.__name__, arguments))


def reached(get, state):
    return oci.wait_until(
        compute, get, "lifecycle_state", state, max_interval_seconds=1, max_wait_seconds=60, succeed_on_not_found=False
    ).data


def read_back(hosts):
    """Every node that Kiln speaks of is there, with its address and its tags."""
    instances = {i.display_name: i for i in everything(compute.list_instances, COMPARTMENT) if i.lifecycle_state == "RUNNING"}
    assert sorted(instances) == sorted(hosts), (sorted(instances), sorted(hosts))
    for name, host in hosts.items():
        instance = instances[name]
        assert instance.id == host["instance_id"], (instance.id, host)
        assert instance.freeform_tags["kiln_node"] == name, instance.freeform_tags
        assert instance.instance_options.are_legacy_imds_endpoints_disabled is True
        (attachment,) = everything(compute.list_vnic_attachments, COMPARTMENT, instance_id=instance.id)
        vnic = networks.get_vnic(attachment.vnic_id).data
        assert vnic.private_ip == host["address"], (vnic.private_ip, host)
        assert networks.get_subnet(vnic.subnet_id).data.cidr_block == "10.31.0.0/24"
    control = instances["control"].id
    attached = everything(compute.list_volume_attachments, COMPARTMENT, instance_id=control)
    for attachment in attached:
        assert volumes.get_volume(attachment.volume_id).data.size_in_gbs >= 50
    assert attached, "the control node has volumes"
    groups = everything(networks.list_network_security_groups, compartment_id=COMPARTMENT)
    rules = [r for g in groups for r in everything(networks.list_network_security_group_security_rules, g.id)]
    assert any(rule.direction == "EGRESS" for rule in rules) and any(rule.direction == "INGRESS" for rule in rules)
    return instances


def details(like, name, **more):
    """A launch beside a node of Kiln's."""
    (attachment,) = everything(compute.list_vnic_attachments, COMPARTMENT, instance_id=like.id)
    given = dict(
        availability_domain=like.availability_domain,
        compartment_id=COMPARTMENT,
        display_name=name,
        shape="VM.Standard.E5.Flex",
        shape_config=models.LaunchInstanceShapeConfigDetails(ocpus=1.0, memory_in_gbs=16.0),
        metadata={"ssh_authorized_keys": "ssh-ed25519 AAAA somebody", "user_data": "e30="},
        source_details=models.InstanceSourceViaImageDetails(image_id=like.source_details.image_id),
        create_vnic_details=models.CreateVnicDetails(subnet_id=attachment.subnet_id, assign_public_ip=False),
    )
    return models.LaunchInstanceDetails(**{**given, **more})


def launch(like):
    wanted = details(like, "of-the-sdk")
    made = compute.launch_instance(wanted, opc_retry_token="token-of-the-sdk")
    again = compute.launch_instance(wanted, opc_retry_token="token-of-the-sdk")
    assert made.data.id == again.data.id, "the same token, the same instance"
    refused(409, "InvalidatedRetryToken", compute.launch_instance, details(like, "other"), opc_retry_token="token-of-the-sdk")
    instance = reached(compute.get_instance(made.data.id), "RUNNING")
    work = client(WorkRequestClient)
    assert work.get_work_request(made.headers["opc-work-request-id"]).data.status == "SUCCEEDED"
    return instance


def launch_a_node(like):
    """An instance that has the tags of a node which is not in Kiln's file."""
    tags = dict(like.freeform_tags, kiln_node="standard-7")
    made = compute.launch_instance(details(like, "standard-7", freeform_tags=tags)).data
    assert reached(compute.get_instance(made.id), "RUNNING").freeform_tags == tags


def change(instance):
    change = models.UpdateInstanceDetails(metadata={"ssh_authorized_keys": "ssh-ed25519 AAAA somebody", "user_data": "b3RoZXI="})
    refused(400, "InvalidParameter", compute.update_instance, instance.id, change)
    tags = models.UpdateInstanceDetails(freeform_tags={"owner": "somebody"})
    etag = compute.get_instance(instance.id).headers["etag"]
    assert compute.update_instance(instance.id, tags, if_match=etag).data.freeform_tags == {"owner": "somebody"}
    refused(412, "NoEtagMatch", compute.update_instance, instance.id, tags, if_match=etag)
    for _ in range(50):
        compute.instance_action(instance.id, "STOP")
        try:
            compute.instance_action(instance.id, "START")
        except oci.exceptions.ServiceError as error:
            assert (error.status, error.code) == (409, "IncorrectState"), error
            break
        # This came too late: it was off.
        reached(compute.get_instance(instance.id), "RUNNING")
    else:
        raise AssertionError("no start of an instance that stops was refused")
    reached(compute.get_instance(instance.id), "STOPPED")


def limits_and_rights(like):
    """What Kiln's user may have, and what Kiln has made for its control node."""
    limits, tenancy, name = client(LimitsClient), CONFIG["tenancy"], "standard-e5-core-count"
    (value,) = [v.value for v in everything(limits.list_limit_values, tenancy, "compute", name=name)
                if v.availability_domain == like.availability_domain]
    left = limits.get_resource_availability(
        "compute", name, COMPARTMENT, availability_domain=like.availability_domain).data
    assert left.used >= 4 and left.used + left.available == value, left
    identity = client(IdentityClient)
    (space,) = everything(identity.list_tag_namespaces, tenancy)
    (tag,) = everything(identity.list_tags, space.id)
    assert (space.name, tag.name) == ("kiln", "control"), (space, tag)
    (group,) = everything(identity.list_dynamic_groups, tenancy)
    (policy,) = everything(identity.list_policies, COMPARTMENT)
    assert COMPARTMENT in group.matching_rule, group
    assert all("dynamic-group %s " % group.name in statement for statement in policy.statements), policy
    (control,) = [i for i in everything(compute.list_instances, COMPARTMENT) if i.display_name == "control"]
    assert list(control.defined_tags["kiln"]) == ["control"], control.defined_tags
    refused(404, "NotAuthorizedOrNotFound", limits.list_limit_values, COMPARTMENT, "compute")


def file_storage(like, hosts):
    """Kiln's file systems are exported to its nodes, and root of the control node alone is root there. Then one of the SDK's own."""
    storage, domain = client(FileStorageClient), like.availability_domain
    (target,) = everything(storage.list_mount_targets, COMPARTMENT, domain)
    address = networks.get_private_ip(target.private_ip_ids[0]).data.ip_address
    assert address not in [host["address"] for host in hosts.values()], address
    own = {f.display_name: f for f in everything(storage.list_file_systems, COMPARTMENT, domain)}
    assert sorted(own) == ["sdk-home", "sdk-share"], own
    for name, access in (("sdk-home", "READ_WRITE"), ("sdk-share", "READ_ONLY")):
        (summary,) = everything(storage.list_exports, file_system_id=own[name].id)
        export = storage.get_export(summary.id).data
        assert (export.path, export.export_set_id) == ("/" + name, target.export_set_id), export
        control, others = export.export_options
        assert (control.source, control.identity_squash) == (hosts["control"]["address"], "NONE"), control
        assert (others.source, others.access, others.identity_squash) == ("10.31.0.0/24", access, "ROOT"), others
        refused(409, "IncorrectState", storage.delete_file_system, own[name].id)
    refused(409, "IncorrectState", storage.delete_mount_target, target.id)

    details = files.CreateFileSystemDetails(compartment_id=COMPARTMENT, availability_domain=domain, display_name="scratch")
    made = storage.create_file_system(details).data
    active = oci.wait_until(storage, storage.get_file_system(made.id), "lifecycle_state", "ACTIVE", max_interval_seconds=1).data
    details = files.CreateExportDetails(export_set_id=target.export_set_id, file_system_id=active.id, path="/scratch", export_options=[])
    export = storage.create_export(details).data
    storage.delete_export(export.id)
    oci.wait_until(storage, storage.get_export(export.id), "lifecycle_state", "DELETED", max_interval_seconds=1)
    storage.delete_file_system(active.id)
    oci.wait_until(storage, storage.get_file_system(active.id), "lifecycle_state", "DELETED", max_interval_seconds=1)


def rdma(instances):
    """Kiln's nodes with RDMA are in a compute cluster of their own, which cannot go while they are there."""
    (own,) = everything(compute.list_compute_clusters, COMPARTMENT)
    assert own.display_name == "sdk-hpc-ad1", own
    assert compute.get_compute_cluster(own.id).data.lifecycle_state == "ACTIVE"
    refused(409, "IncorrectState", compute.delete_compute_cluster, own.id)
    misfit = details(instances["standard-0"], "misfit", compute_cluster_id=own.id)
    refused(400, "InvalidParameter", compute.launch_instance, misfit)


def capacity(like):
    shapes = [models.CreateCapacityReportShapeAvailabilityDetails(instance_shape=shape) for shape in ("BM.HPC2.36", "VM.Nothing")]
    wanted = dict(availability_domain=like.availability_domain, shape_availabilities=shapes)
    report = models.CreateComputeCapacityReportDetails(compartment_id=CONFIG["tenancy"], **wanted)
    told = [s.availability_status for s in compute.create_compute_capacity_report(report).data.shape_availabilities]
    assert told == ["AVAILABLE", "HARDWARE_NOT_SUPPORTED"], told
    elsewhere = models.CreateComputeCapacityReportDetails(compartment_id=COMPARTMENT, **wanted)
    refused(404, "NotAuthorizedOrNotFound", compute.create_compute_capacity_report, elsewhere)


def refusals(like):
    refused(404, "NotAuthorizedOrNotFound", compute.list_instances, "ocid1.compartment.oc1..other")
    refused(404, "NotAuthorizedOrNotFound", compute.get_instance, "ocid1.instance.oc1.phx.nothing")
    (attachment,) = everything(compute.list_vnic_attachments, COMPARTMENT, instance_id=like.id)
    refused(409, "Conflict", networks.delete_subnet, attachment.subnet_id)
    stranger = dict(CONFIG, user="ocid1.user.oc1..stranger")
    refused(401, "NotAuthenticated", ComputeClient(stranger, service_endpoint=URL).get_instance, like.id)


def as_an_instance(like):
    """The SDK's own exchange of an instance's certificate for a token."""
    os.environ["OCI_METADATA_BASE_URL"] = URL + "/opc/v2"
    signer = oci.auth.signers.InstancePrincipalsSecurityTokenSigner(federation_endpoint=URL + "/v1/x509")
    own = ComputeClient({}, signer=signer, service_endpoint=URL)
    assert own.get_instance(like.id).data.id == like.id
    volume = models.CreateVolumeDetails(compartment_id=COMPARTMENT, availability_domain=like.availability_domain, size_in_gbs=50)
    storage = BlockstorageClient({}, signer=signer, service_endpoint=URL, retry_strategy=oci.retry.NoneRetryStrategy())
    refused(404, "NotAuthorizedOrNotFound", storage.create_volume, volume)


def main():
    with open(sys.argv[1]) as file:
        hosts = {host["name"]: host for host in json.load(file)}
    assert len(everything(client(IdentityClient).list_availability_domains, COMPARTMENT)) == 3
    assert client(ObjectStorageClient).get_namespace().data
    instances = read_back(hosts)
    like = instances["standard-0"]
    instance = launch(like)
    change(instance)
    limits_and_rights(like)
    file_storage(like, hosts)
    rdma(instances)
    capacity(like)
    refusals(like)
    as_an_instance(like)
    launch_a_node(like)
    print("as expected")


if __name__ == "__main__":
    main()
